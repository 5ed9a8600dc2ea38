//! ONC RPC over TCP and over RPC/RDMA
