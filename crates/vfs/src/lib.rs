//! File vocabulary and the local directory store
