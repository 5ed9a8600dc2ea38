//! The fabric seam: domains, regions, endpoints, completions
