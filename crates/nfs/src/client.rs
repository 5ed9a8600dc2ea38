//! The client (being written).
