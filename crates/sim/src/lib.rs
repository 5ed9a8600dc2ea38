//! The simulator: virtual time, simulated streams, fabric and disk, checkers
