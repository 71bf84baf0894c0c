//! Hints to the processor about memory that is soon needed. Any address will do: a hint faults nowhere.

/// This line is soon read.
#[inline(always)]
pub fn to_read(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint; it does not fault whatever the address is.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// This line is soon written: no other core keeps it. As an instruction by itself, since compilers turn the intrinsic
/// into a prefetch for reading where they do not know the processor; one that has no such instruction does nothing.
#[inline(always)]
pub fn to_write(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prefetchw byte ptr [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}
