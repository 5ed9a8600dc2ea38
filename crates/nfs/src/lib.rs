//! NFSv3 and MOUNT: server over vfs, client over rpc
