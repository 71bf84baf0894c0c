//! The host's side of what an NF behind the C ABI may ask of its files during a call.

use crate::abi::{self, E_ABSENT, E_FULL, E_INVALID, OK};
use crate::instance::{HostCtx, with};
use chainline_nf::{File, Refused};

/// The most parts of one write.
const MAX_PARTS: usize = 16;

fn code(result: Result<(), Refused>) -> i32 {
    match result {
        Ok(()) => OK,
        Err(Refused::Full | Refused::Ending) => E_FULL,
        Err(Refused::Absent) => E_ABSENT,
        Err(Refused::TooLong) => E_INVALID,
    }
}

pub(crate) unsafe extern "C" fn write(
    ctx: *mut abi::Ctx,
    file: u32,
    parts: *const abi::Bytes,
    count: u32,
    context: *const u64,
) -> i32 {
    if parts.is_null() || count as usize > MAX_PARTS {
        return E_INVALID;
    }
    let append = |host: &mut HostCtx<'_, '_>| {
        let mut slices: [&[u8]; MAX_PARTS] = [&[]; MAX_PARTS];
        // SAFETY: the NF vouches for `count` parts, and for the bytes of each.
        for (slice, part) in slices.iter_mut().zip(unsafe { std::slice::from_raw_parts(parts, count as usize) }) {
            if part.at.is_null() || part.len == 0 {
                continue;
            }
            if part.len > isize::MAX as usize {
                return E_INVALID;
            }
            // SAFETY: as above; not NULL, and no longer than memory can be.
            *slice = unsafe { std::slice::from_raw_parts(part.at, part.len) };
        }
        // SAFETY: `context` is NULL or the NF's own.
        let context = unsafe { context.as_ref() }.copied();
        code(host.ctx.write(File::from_bits(file), &slices[..count as usize], context))
    };
    // SAFETY: the NF hands back the `ctx` that it was given.
    unsafe { with(ctx, append) }
}

pub(crate) unsafe extern "C" fn read(ctx: *mut abi::Ctx, file: u32, offset: u64, len: u32, context: u64) -> i32 {
    // SAFETY: the NF hands back the `ctx` that it was given.
    unsafe { with(ctx, |host| code(host.ctx.read(File::from_bits(file), offset, len, context))) }
}

pub(crate) unsafe extern "C" fn flush(ctx: *mut abi::Ctx, file: u32) -> i32 {
    // SAFETY: the NF hands back the `ctx` that it was given.
    unsafe { with(ctx, |host| code(host.ctx.flush(File::from_bits(file)))) }
}
