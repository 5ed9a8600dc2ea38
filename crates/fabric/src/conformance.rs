//! The suite every provider must pass (written by the simulator work; see the functions below).
