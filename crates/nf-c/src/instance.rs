//! An NF behind the C ABI as an [`NfObject`].

use crate::abi::{self, E_ABSENT, E_FAILED, E_FULL, E_INVALID, OK};
use crate::env::HostEnv;
use crate::export::c_string;
use crate::files;
use crate::load::{LoadedKind, Table};
use crate::text::{self, MAX_WORDS};
use chainline_nf::{Burst, Completion, Ctx, Decoded, Env, Error, HoldId, MAX_BURST, NfObject, Packet, Verdict};
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The longest report, in bytes.
const MAX_REPORT: usize = 64 << 10;

/// What a verdict of the NF may name.
#[derive(Clone, Copy)]
struct Limits {
    reasons: u32,
    targets: u32,
    bad_frame: Verdict,
    bad_verdict: Verdict,
}

impl Limits {
    /// The verdict, or `bad_verdict` if it names what the NF never declared or was never granted.
    fn check(self, verdict: Verdict) -> Verdict {
        match verdict.decode() {
            Some(Decoded::Next | Decoded::Hold(_)) => verdict,
            Some(Decoded::Drop(r)) if u32::from(r) < self.reasons => verdict,
            Some(Decoded::Divert(t)) if u32::from(t) < self.targets => verdict,
            _ => self.bad_verdict,
        }
    }
}

struct Instance {
    name: String,
    table: Table,
    handle: *mut c_void,
    limits: Limits,
    /// The burst as C sees it, kept from call to call so that none allocates.
    packets: Box<[abi::Packet]>,
    /// After an error nothing is known of the NF's state: it is not called again, not even to end it.
    failed: bool,
}

// SAFETY: the ABI says that an instance may move between threads as long as one at a time calls it, and `&mut self`
// sees to that (`report` takes `&self`, but `Instance` is not `Sync`). `packets` points nowhere between calls.
unsafe impl Send for Instance {}

/// Creates an NF; `args` satisfy the schema already.
pub(crate) fn create(
    kind: &LoadedKind,
    table: Table,
    args: &serde_json::Value,
    env: &mut Env<'_>,
) -> Result<Box<dyn NfObject>, Error> {
    let targets = env.targets().len() as u32;
    let json = c_string(&args.to_string());
    let mut host = HostEnv::new(env, args);
    let mut handle = std::ptr::null_mut();
    // SAFETY: `create` is the NF's, whose author vouches for the ABI; what it gets is valid during the call.
    let code = host.lend(|env| unsafe { (table.create)(json.as_ptr(), env, &raw mut handle) });
    if code != OK {
        let message = host.message.unwrap_or_else(|| format!("create returned {code} without a message"));
        return Err(Error::Library(message));
    }
    // The NF's own reasons have the indexes it was told; ours come after them and are not for its use.
    let reasons = host.reasons();
    let bad = |bits| Verdict::from_bits(abi::VERDICT_DROP << abi::VERDICT_SHIFT | bits);
    let (bad_verdict, bad_frame) = (bad(host.reason("bad_verdict")), bad(host.reason("bad_frame")));
    let limits = Limits { reasons, targets, bad_frame, bad_verdict };
    let packets = vec![BLANK; MAX_BURST].into_boxed_slice();
    Ok(Box::new(Instance { name: kind.to_string(), table, handle, limits, packets, failed: false }))
}

const BLANK: abi::Packet = abi::Packet {
    buf: std::ptr::null_mut(),
    buf_len: 0,
    flow_hash: 0,
    verdict: abi::VERDICT_NEXT,
    off: 0,
    len: 0,
    chain: 0,
    hop: 0,
    reserved: [0; 5],
};

fn to_c(packet: &mut Packet<'_>) -> abi::Packet {
    let (meta, off, len) = (packet.meta(), packet.offset(), packet.len() as u16);
    let buf = packet.buffer_mut();
    abi::Packet {
        buf: buf.as_mut_ptr(),
        buf_len: buf.len() as u32,
        flow_hash: meta.flow_hash,
        off,
        len,
        chain: meta.chain,
        hop: meta.hop,
        ..BLANK
    }
}

impl NfObject for Instance {
    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        for (slot, packet) in self.packets.iter_mut().zip(burst.packets_mut()) {
            *slot = to_c(packet);
        }
        let (handle, process) = (self.handle, self.table.process);
        let (packets, count) = (self.packets.as_mut_ptr(), burst.len() as u32);
        // SAFETY: `count` entries of `packets` were just written, each pointing to a buffer that `burst` borrows
        // exclusively and that nobody here touches before the call is over.
        self.call("process", ctx, |ctx| unsafe { process(handle, packets, count, ctx) });
        for (slot, (packet, verdict)) in self.packets.iter().zip(burst.iter_mut()) {
            *verdict = if packet.set_frame(slot.off, slot.len) {
                self.limits.check(Verdict::from_bits(slot.verdict))
            } else {
                self.limits.bad_frame
            };
        }
    }

    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        let handle = self.handle;
        if let Some(tick) = self.table.tick {
            // SAFETY: the handle is the NF's own, and `ctx` is valid during the call.
            self.call("tick", ctx, |ctx| unsafe { tick(handle, ctx) });
        }
    }

    fn completed(&mut self, done: &Completion<'_>, ctx: &mut Ctx<'_>) {
        let Some(completed) = self.table.completed else { return };
        let handle = self.handle;
        let c = abi::Completion {
            file: done.file.to_bits(),
            has_context: u32::from(done.context.is_some()),
            context: done.context.unwrap_or(0),
            count: done.count,
            result: done.result.map_or_else(|e| -i64::from(e.0), |n| n as i64),
            data: if done.data.is_empty() { std::ptr::null() } else { done.data.as_ptr() },
        };
        // SAFETY: the handle is the NF's own; `c`, what it points to, and `ctx` are valid during the call.
        self.call("completed", ctx, |ctx| unsafe { completed(handle, &raw const c, ctx) });
    }

    fn report(&self) -> Option<String> {
        let report = self.table.report.filter(|_| !self.failed)?;
        let mut text: Vec<u8> = Vec::new();
        // SAFETY: the handle is the NF's own; `say` gets back the pointer to `text`, which lives through the call.
        let code = unsafe { report(self.handle, Some(say), (&raw mut text).cast::<c_void>()) };
        if code != OK {
            return Some(format!("({} could not report: error {code})", self.name));
        }
        (!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned())
    }
}

impl Instance {
    /// Calls into the NF.
    ///
    /// # Panics
    /// When the NF returns an error: a burst half done cannot be told from one done, so the instance is dead. The
    /// host catches it as it does any panic of an NF.
    fn call(&mut self, what: &str, ctx: &mut Ctx<'_>, f: impl FnOnce(*mut abi::Ctx) -> i32) {
        let (now_ns, counters, ending) = (ctx.now_ns(), ctx.counters(), u32::from(ctx.is_ending()));
        let mut host = HostCtx { ctx, limits: self.limits, message: None };
        let mut lent = abi::Ctx {
            struct_size: size_of::<abi::Ctx>() as u32,
            n_counters: counters.len() as u32,
            now_ns,
            // An atomic has the layout of its integer, and may be written through a shared reference.
            counters: counters.as_ptr().cast::<u64>().cast_mut(),
            hold: Some(hold),
            with_held: Some(with_held),
            release: Some(release),
            write: Some(files::write),
            read: Some(files::read),
            flush: Some(files::flush),
            fail: Some(fail),
            host: (&raw mut host).cast::<c_void>(),
            ending,
            reserved: 0,
        };
        assert!(!self.failed, "{}: called again after it had failed", self.name);
        let code = f(&raw mut lent);
        if code != OK {
            self.failed = true;
            let message = host.message.unwrap_or_else(|| "no message".into());
            panic!("{}: {what} returned error {code}: {message}", self.name);
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(destroy) = self.table.destroy.filter(|_| !self.failed) {
            // SAFETY: the handle came from `create`, and this is its last use.
            unsafe { destroy(self.handle) };
        }
    }
}

/// Appends to the report.
unsafe extern "C" fn say(user: *mut c_void, bytes: *const c_char, len: usize) {
    if user.is_null() || bytes.is_null() {
        return;
    }
    // SAFETY: `user` is the vector that `report` lent for the call.
    let text = unsafe { &mut *user.cast::<Vec<u8>>() };
    let len = len.min(MAX_REPORT - text.len().min(MAX_REPORT));
    // SAFETY: the NF vouches for at least `len` readable bytes.
    text.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) });
}

/// What stands behind the pointer `host` during a call.
pub(crate) struct HostCtx<'a, 'c> {
    pub ctx: &'a mut Ctx<'c>,
    limits: Limits,
    message: Option<String>,
}

/// Runs `f` on the host's structure. No panic may cross into C.
///
/// # Safety
/// `ctx` is what [`Instance::call`] handed to the NF whose call is still running, and no other callback runs.
pub(crate) unsafe fn with(ctx: *mut abi::Ctx, f: impl FnOnce(&mut HostCtx<'_, '_>) -> i32) -> i32 {
    if ctx.is_null() {
        return E_INVALID;
    }
    // SAFETY: `ctx` is ours (the caller's word), and `host` was set by `call` to a value that outlives the call.
    let host = unsafe { &mut *(*ctx).host.cast::<HostCtx<'_, '_>>() };
    catch_unwind(AssertUnwindSafe(|| f(host))).unwrap_or(E_FAILED)
}

unsafe extern "C" fn hold(ctx: *mut abi::Ctx, id: *mut u32) -> i32 {
    if id.is_null() {
        return E_INVALID;
    }
    let reserve = |host: &mut HostCtx<'_, '_>| match host.ctx.hold() {
        Some(reserved) => {
            // SAFETY: not NULL, hence the NF's own.
            unsafe { id.write(reserved.to_bits()) };
            OK
        }
        None => E_FULL,
    };
    // SAFETY: the NF hands back the `ctx` that it was given.
    unsafe { with(ctx, reserve) }
}

unsafe extern "C" fn with_held(
    ctx: *mut abi::Ctx,
    id: u32,
    f: Option<unsafe extern "C" fn(packet: *mut abi::Packet, user: *mut c_void)>,
    user: *mut c_void,
) -> i32 {
    let Some(f) = f else { return E_INVALID };
    let visit = |host: &mut HostCtx<'_, '_>| {
        let mut code = OK;
        let found = host.ctx.with_held(HoldId::from_bits(id), |packet| {
            let mut lent = to_c(packet);
            // SAFETY: `lent` points into the buffer that `packet` borrows exclusively, and both live through the
            // call. The header says that `f` must not use `ctx`.
            unsafe { f(&raw mut lent, user) };
            if !packet.set_frame(lent.off, lent.len) {
                code = E_INVALID;
            }
        });
        if found { code } else { E_ABSENT }
    };
    // SAFETY: the NF hands back the `ctx` that it was given.
    unsafe { with(ctx, visit) }
}

unsafe extern "C" fn release(ctx: *mut abi::Ctx, id: u32, verdict: u32) -> i32 {
    let end = |host: &mut HostCtx<'_, '_>| {
        let verdict = match host.limits.check(Verdict::from_bits(verdict)) {
            // What is released cannot be held by the same breath.
            v if matches!(v.decode(), Some(Decoded::Hold(_))) => host.limits.bad_verdict,
            v => v,
        };
        if host.ctx.release(HoldId::from_bits(id), verdict) { OK } else { E_ABSENT }
    };
    // SAFETY: the NF hands back the `ctx` that it was given.
    unsafe { with(ctx, end) }
}

unsafe extern "C" fn fail(ctx: *mut abi::Ctx, message: *const c_char) {
    let keep = |host: &mut HostCtx<'_, '_>| {
        // SAFETY: the NF hands over text that ends with a NUL.
        host.message = unsafe { text::read(message, MAX_WORDS) }.ok();
        OK
    };
    // SAFETY: the NF hands back the `ctx` that it was given.
    unsafe { with(ctx, keep) };
}
