//! File serving over RDMA, with or without RDMA hardware
