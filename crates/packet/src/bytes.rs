//! Loads of fixed width. `None` instead of a panic where the slice ends too early.

#[inline(always)]
pub(crate) fn array<const N: usize>(data: &[u8], off: usize) -> Option<&[u8; N]> {
    data.get(off..)?.first_chunk()
}

#[inline(always)]
pub(crate) fn be16(data: &[u8], off: usize) -> Option<u16> {
    array(data, off).map(|b| u16::from_be_bytes(*b))
}

/// `data[OFF..OFF + N]` of an array; inlined, the bounds are known and the check is gone.
#[inline(always)]
pub(crate) fn part<const N: usize>(data: &[u8], off: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&data[off..off + N]);
    out
}
