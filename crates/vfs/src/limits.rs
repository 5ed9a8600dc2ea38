//! Bounds of the file vocabulary, in one place.

/// Longest file handle in bytes, as NFSv4 has it (RFC 8881 NFS4_FHSIZE). NFSv3 has 64: the `nfs` crate refuses longer
/// ones.
pub const HANDLE_MAX: usize = 128;
/// Longest name of a directory entry in bytes.
pub const NAME_MAX: usize = 255;
/// Longest symbolic link text in bytes.
pub const SYMLINK_MAX: usize = 4095;
/// Most supplementary groups of a caller.
pub const GROUPS_MAX: usize = 1024;
/// Most supplementary groups that a call carries (AUTH_SYS, RFC 5531 appendix A).
pub const CALL_GROUPS_MAX: usize = 16;
/// Largest READ or WRITE in bytes.
pub const TRANSFER_MAX: u32 = 1 << 20;
