//! Big-endian fields of fixed headers, each at a range of bytes that its format names.
//!
//! Header and range have lengths known at compile time, so the checks of the slices below disappear once the calls
//! are inlined: a read is a load and a byte swap.

use core::ops::Range;

/// The `M` bytes of `header` at `field`, which is `M` long.
#[inline(always)]
pub(crate) fn bytes_of<const N: usize, const M: usize>(
    header: &[u8; N],
    field: Range<usize>,
) -> [u8; M] {
    let mut bytes = [0; M];
    bytes.copy_from_slice(&header[field]);
    bytes
}

/// The 16-bit number at `field`.
#[inline(always)]
pub(crate) fn u16_of<const N: usize>(header: &[u8; N], field: Range<usize>) -> u16 {
    u16::from_be_bytes(bytes_of(header, field))
}

/// The 32-bit number at `field`.
#[inline(always)]
pub(crate) fn u32_of<const N: usize>(header: &[u8; N], field: Range<usize>) -> u32 {
    u32::from_be_bytes(bytes_of(header, field))
}

/// The 64-bit number at `field`.
#[inline(always)]
pub(crate) fn u64_of<const N: usize>(header: &[u8; N], field: Range<usize>) -> u64 {
    u64::from_be_bytes(bytes_of(header, field))
}

/// Writes `bytes` to `field`, which is as long as they are.
#[inline(always)]
pub(crate) fn put<const N: usize, const M: usize>(
    header: &mut [u8; N],
    field: Range<usize>,
    bytes: [u8; M],
) {
    header[field].copy_from_slice(&bytes);
}
