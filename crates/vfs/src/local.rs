//! The store that serves a local directory (being written).
