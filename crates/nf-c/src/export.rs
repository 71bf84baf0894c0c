//! A Rust NF as a shared object: what [`crate::export_nf!`] expands to.

use crate::abi::{self, E_FAILED, E_INVALID, OK};
use crate::footprint;
use chainline_nf::{
    Access, Burst, Completion, Ctx, Durable, Env, Errno, File, FileSpec, HoldId, Holds, MAX_BURST, Nf, Packet,
    PacketMeta, Refused, Sharing, Storage, Verdict,
};
use std::any::Any;
use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

/// Exports an NF from a `cdylib` crate: `export_nf!(MyNf);`, once.
#[macro_export]
macro_rules! export_nf {
    ($nf:ty) => {
        /// The entry of the C ABI.
        #[unsafe(no_mangle)]
        pub extern "C" fn chainline_nf_v1() -> *const $crate::abi::Nf {
            static TABLE: $crate::export::Table = $crate::export::Table::new();
            TABLE.get::<$nf>()
        }
    };
}

/// The table of one NF, made when it is first asked for.
pub struct Table(OnceLock<Option<Exported>>);

struct Exported {
    nf: abi::Nf,
    /// What `nf` points to.
    _texts: [CString; 3],
    _footprint: Option<footprint::Exported>,
}

// SAFETY: the pointers lead to the texts beside them, which nobody changes.
unsafe impl Send for Exported {}
// SAFETY: as above.
unsafe impl Sync for Exported {}

impl Table {
    /// An empty one.
    #[allow(clippy::new_without_default)] // For statics only.
    #[must_use]
    pub const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// The table of `T`, which must always be the same one; NULL if its texts hold a NUL.
    pub fn get<T: Nf>(&'static self) -> *const abi::Nf {
        let made = catch_unwind(|| self.0.get_or_init(exported::<T>).as_ref()).ok().flatten();
        made.map_or(std::ptr::null(), |e| &raw const e.nf)
    }
}

fn exported<T: Nf>() -> Option<Exported> {
    let schema = schemars::schema_for!(T::Args).to_value().to_string();
    let texts = [CString::new(T::KIND).ok()?, CString::new(T::ABOUT).ok()?, CString::new(schema).ok()?];
    let footprint = match &T::FOOTPRINT {
        Some(footprint) => Some(footprint::Exported::new(footprint)?),
        None => None,
    };
    let nf = abi::Nf {
        struct_size: size_of::<abi::Nf>() as u32,
        abi_version: abi::ABI_VERSION,
        packet_size: size_of::<abi::Packet>() as u32,
        ctx_size: size_of::<abi::Ctx>() as u32,
        env_size: size_of::<abi::Env>() as u32,
        reserved: 0,
        kind: texts[0].as_ptr(),
        about: texts[1].as_ptr(),
        args_schema: texts[2].as_ptr(),
        create: Some(create::<T>),
        process: Some(process::<T>),
        tick: Some(tick::<T>),
        report: Some(report::<T>),
        destroy: Some(destroy::<T>),
        completed: Some(completed::<T>),
        footprint: footprint.as_ref().map_or(std::ptr::null(), footprint::Exported::as_ptr),
    };
    Some(Exported { nf, _texts: texts, _footprint: footprint })
}

/// What an entry returns instead of 0.
struct Failure(i32, String);

/// Runs the body of an entry. Neither an error nor a panic leaves it without a message for the host.
fn entry(fail: impl FnOnce(&CStr), body: impl FnOnce() -> Result<(), Failure>) -> i32 {
    let Failure(code, message) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return OK,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure(E_FAILED, format!("the NF panicked: {}", said(&*panic))),
    };
    fail(&c_string(&message));
    code
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let words = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref().copied());
    words.unwrap_or("no message")
}

/// A message with its NUL; one inside would cut it, so it is shown instead.
pub(crate) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\\0")).unwrap_or_default()
}

fn invalid(message: impl Into<String>) -> Failure {
    Failure(E_INVALID, message.into())
}

unsafe extern "C" fn create<T: Nf>(args: *const c_char, env: *mut abi::Env, handle: *mut *mut c_void) -> i32 {
    // SAFETY: the host hands over a valid environment, or NULL.
    let Some(lent) = (unsafe { env.as_ref() }) else { return E_INVALID };
    let fail = |message: &CStr| {
        if let Some(fail) = lent.fail {
            // SAFETY: the host's own function on its own structure, during the call.
            unsafe { fail(env, message.as_ptr()) };
        }
    };
    entry(fail, || {
        if args.is_null() || handle.is_null() || (lent.struct_size as usize) < size_of::<abi::Env>() {
            return Err(invalid("create: the host handed over NULL or an older environment"));
        }
        // SAFETY: the host vouches for texts that end with a NUL, and for `n_targets` of them.
        let (args, dir, targets) = unsafe {
            let targets = (0..lent.n_targets as usize).map(|i| CStr::from_ptr(*lent.targets.add(i)));
            let targets: Vec<String> = targets.map(|t| t.to_string_lossy().into_owned()).collect();
            (CStr::from_ptr(args), CStr::from_ptr(lent.dir), targets)
        };
        let args: serde_json::Value =
            serde_json::from_slice(args.to_bytes()).map_err(|e| invalid(format!("args: {e}")))?;
        let args = serde_json::from_value(args).map_err(|e| invalid(format!("args: {e}")))?;
        // Nobody shares state through the ABI.
        T::check(&args, Sharing::Private).map_err(|e| invalid(e.to_string()))?;
        let mut own = Env::new(Path::new(OsStr::from_bytes(dir.to_bytes())), &targets);
        let nf = T::new(args, &mut own).map_err(|e| invalid(e.to_string()))?;
        // SAFETY: the host's own functions on its own structure, during the call.
        unsafe { declare(env, lent, own.into_declared()) }?;
        // SAFETY: not NULL, hence the host's variable.
        unsafe { handle.write(Box::into_raw(Box::new(nf)).cast::<c_void>()) };
        Ok(())
    })
}

/// Tells the host what the NF declared; the indexes must come out as the NF was told.
///
/// # Safety
/// `env` is the host's environment of the running call, and `lent` what it points to.
unsafe fn declare(env: *mut abi::Env, lent: &abi::Env, declared: chainline_nf::Declared) -> Result<(), Failure> {
    let (Some(counter), Some(drop_reason)) = (lent.counter, lent.drop_reason) else {
        return Err(invalid("create: the host's environment lacks functions"));
    };
    let check = |name: &str, code: i32, index: u32, expected: usize| match code {
        OK if index as usize == expected => Ok(()),
        OK => Err(invalid(format!("the host gave '{name}' index {index}; expected {expected}"))),
        code => Err(Failure(code, format!("the host refused '{name}': error {code}"))),
    };
    for (i, c) in declared.counters.iter().enumerate() {
        let (name, unit, help) = (c_string(&c.name), c_string(&c.unit), c_string(&c.help));
        let mut index = 0;
        // SAFETY: the host's own function; the texts live through the call.
        let code = unsafe { counter(env, name.as_ptr(), unit.as_ptr(), help.as_ptr(), &raw mut index) };
        check(&c.name, code, index, i)?;
    }
    for (i, name) in declared.drop_reasons.iter().enumerate() {
        let mut index = 0;
        // SAFETY: as above.
        let code = unsafe { drop_reason(env, c_string(name).as_ptr(), &raw mut index) };
        check(name, code, index, i)?;
    }
    if declared.holds {
        let Some(may_hold_each) = lent.may_hold_each else { return Err(invalid("create: no `may_hold_each`")) };
        // SAFETY: as above.
        unsafe { may_hold_each(env) };
    }
    for (i, f) in declared.files.iter().enumerate() {
        let Some(open) = lent.open else { return Err(invalid("create: no `open`")) };
        let name = f.path.display().to_string();
        if f.limit_bytes.is_some() || f.blocking {
            return Err(invalid(format!("{name}: a limit and blocking writes are not had through the C ABI")));
        }
        let path = CString::new(f.path.as_os_str().as_bytes()).map_err(|_| invalid(format!("{name}: a NUL")))?;
        let (spec, mut index) = (file_spec(f), 0);
        // SAFETY: as above; the head lives through the call.
        let code = unsafe { open(env, path.as_ptr(), &raw const spec, &raw mut index) };
        check(&name, code, index, i)?;
    }
    Ok(())
}

/// In the words of the ABI; points into `f`.
fn file_spec(f: &FileSpec) -> abi::FileSpec {
    let (access, keep) = match f.access {
        Access::Read => (abi::FILE_READ, abi::KEEP_ALL),
        Access::Append { keep } => (abi::FILE_APPEND, keep.unwrap_or(abi::KEEP_ALL)),
    };
    let durable = match f.durable {
        Durable::Never => abi::DURABLE_NEVER,
        Durable::AtEnd => abi::DURABLE_AT_END,
        Durable::EachBatch => abi::DURABLE_EACH_BATCH,
    };
    abi::FileSpec {
        access,
        durable,
        keep,
        head: f.head.as_ptr(),
        head_len: f.head.len(),
        batch_bytes: f.batch_bytes,
        flush_ms: f.flush_ms,
        packet_bytes: f.packet_bytes,
        reads: f.reads,
        read_bytes: f.read_bytes,
        reserved: 0,
    }
}

unsafe extern "C" fn process<T: Nf>(
    handle: *mut c_void,
    packets: *mut abi::Packet,
    count: u32,
    ctx: *mut abi::Ctx,
) -> i32 {
    // SAFETY: the host hands over a valid context.
    unsafe {
        call::<T>(handle, ctx, |nf, ctx| {
            if packets.is_null() || count as usize > MAX_BURST {
                return Err(invalid(format!("process: {count} packets; expected up to {MAX_BURST}")));
            }
            let raw = std::slice::from_raw_parts_mut(packets, count as usize);
            let mut burst = Burst::new();
            for p in raw.iter() {
                let packet = view(p).ok_or_else(|| invalid("process: a frame outside its buffer"))?;
                // There is room: `count` was checked.
                let _ = burst.push(packet);
            }
            nf.process(&mut burst, ctx);
            if burst.len() != raw.len() {
                let message = format!("the NF left {} of {} packets in its burst", burst.len(), raw.len());
                return Err(invalid(message));
            }
            for (raw, (packet, verdict)) in raw.iter_mut().zip(burst.iter_mut()) {
                (raw.off, raw.len) = (packet.offset(), packet.len() as u16);
                raw.verdict = verdict.to_bits();
            }
            Ok(())
        })
    }
}

/// A packet as the SDK has it; `None` if its frame is outside its buffer.
///
/// # Safety
/// `p.buf` is NULL, or `buf_len` bytes that belong to the caller alone during the call.
unsafe fn view<'a>(p: &abi::Packet) -> Option<Packet<'a>> {
    if p.buf.is_null() {
        return None;
    }
    // SAFETY: the caller's word.
    let buf = unsafe { std::slice::from_raw_parts_mut(p.buf, p.buf_len as usize) };
    Packet::new(buf, p.off, p.len, PacketMeta { chain: p.chain, hop: p.hop, flow_hash: p.flow_hash })
}

/// Runs `body` with the NF and a context of the SDK.
///
/// # Safety
/// `handle` came from [`create`] of the same `T` and nobody else uses it; `ctx` is NULL or valid during the call.
unsafe fn call<T: Nf>(
    handle: *mut c_void,
    ctx: *mut abi::Ctx,
    body: impl FnOnce(&mut T, &mut Ctx<'_>) -> Result<(), Failure>,
) -> i32 {
    // SAFETY: the caller's word; the fields are copied, so that the host may use its structure in callbacks.
    let Some((size, fail, now_ns, counters, n)) = (unsafe {
        ctx.as_ref().map(|c| (c.struct_size as usize, c.fail, c.now_ns, c.counters, c.n_counters as usize))
    }) else {
        return E_INVALID;
    };
    let tell = |message: &CStr| {
        if let Some(fail) = fail {
            // SAFETY: the host's own function on its own structure, during the call.
            unsafe { fail(ctx, message.as_ptr()) };
        }
    };
    entry(tell, || {
        if handle.is_null() || size < size_of::<abi::Ctx>() {
            return Err(invalid("the host handed over NULL or an older context"));
        }
        let counters: &[AtomicU64] = if n == 0 || counters.is_null() {
            &[]
        } else {
            // SAFETY: the host vouches for `n` counters, which all sides use as atomics.
            unsafe { std::slice::from_raw_parts(counters.cast::<AtomicU64>(), n) }
        };
        // SAFETY: the handle is a `Box<T>` of ours that nobody else uses during the call.
        let nf = unsafe { &mut *handle.cast::<T>() };
        // SAFETY: the context has all fields, as its size says.
        let ending = unsafe { (*ctx).ending } != 0;
        let (mut holds, mut files) = (HostHolds(ctx), HostFiles(ctx));
        let ctx = Ctx::new(now_ns, counters, &mut holds).with_storage(Some(&mut files));
        body(nf, &mut ctx.with_ending(ending))
    })
}

unsafe extern "C" fn tick<T: Nf>(handle: *mut c_void, ctx: *mut abi::Ctx) -> i32 {
    // SAFETY: the host hands back the handle from `create`, and a valid context.
    unsafe {
        call::<T>(handle, ctx, |nf, ctx| {
            nf.tick(ctx);
            Ok(())
        })
    }
}

unsafe extern "C" fn completed<T: Nf>(handle: *mut c_void, done: *const abi::Completion, ctx: *mut abi::Ctx) -> i32 {
    // SAFETY: the host hands back the handle from `create`, and a valid context and completion.
    unsafe {
        call::<T>(handle, ctx, |nf, ctx| {
            let Some(c) = done.as_ref() else { return Err(invalid("completed: the host handed over NULL")) };
            let result = u64::try_from(c.result).map_err(|_| Errno(i32::try_from(-c.result).unwrap_or(i32::MAX)));
            let data = match result {
                Ok(n) if !c.data.is_null() => std::slice::from_raw_parts(c.data, n as usize),
                _ => &[],
            };
            let context = (c.has_context != 0).then_some(c.context);
            nf.completed(&Completion { file: File::from_bits(c.file), context, count: c.count, result, data }, ctx);
            Ok(())
        })
    }
}

type Write = unsafe extern "C" fn(user: *mut c_void, text: *const c_char, len: usize);

unsafe extern "C" fn report<T: Nf>(handle: *const c_void, write: Option<Write>, user: *mut c_void) -> i32 {
    let (Some(write), false) = (write, handle.is_null()) else { return E_INVALID };
    entry(
        |_| {},
        || {
            // SAFETY: the handle is a `Box<T>` of ours, and `write` and `user` are the host's.
            unsafe {
                if let Some(text) = (*handle.cast::<T>()).report() {
                    write(user, text.as_ptr().cast::<c_char>(), text.len());
                }
            }
            Ok(())
        },
    )
}

unsafe extern "C" fn destroy<T: Nf>(handle: *mut c_void) {
    if handle.is_null() {
        return;
    }
    // SAFETY: the handle is a `Box<T>` of ours, and the host does not use it again. A panic in its destructor has
    // nobody to be told to; what it held leaks.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(handle.cast::<T>()) })));
}

/// The host's places for held packets.
struct HostHolds(*mut abi::Ctx);

/// What [`visit`] needs, and the panic it must not let through C.
struct Visit<'a> {
    f: &'a mut dyn FnMut(&mut Packet<'_>),
    panic: Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn visit(packet: *mut abi::Packet, user: *mut c_void) {
    // SAFETY: `user` is the `Visit` of the call that runs, and the host lends the packet during this one.
    let (visit, raw) = unsafe { (&mut *user.cast::<Visit<'_>>(), &mut *packet) };
    // SAFETY: the host vouches for the buffer.
    let Some(mut packet) = (unsafe { view(raw) }) else { return };
    match catch_unwind(AssertUnwindSafe(|| (visit.f)(&mut packet))) {
        Ok(()) => (raw.off, raw.len) = (packet.offset(), packet.len() as u16),
        Err(panic) => visit.panic = Some(panic),
    }
}

impl Holds for HostHolds {
    fn reserve(&mut self) -> Option<HoldId> {
        let mut id = 0;
        // SAFETY: the context is valid during the call that this value lives in; so below.
        let code = unsafe { ((*self.0).hold?)(self.0, &raw mut id) };
        (code == OK).then_some(HoldId::from_bits(id))
    }

    fn with(&mut self, id: HoldId, f: &mut dyn FnMut(&mut Packet<'_>)) -> bool {
        // SAFETY: as in `reserve`.
        let Some(with_held) = (unsafe { (*self.0).with_held }) else { return false };
        let mut state = Visit { f, panic: None };
        // SAFETY: as in `reserve`; `state` lives through the call.
        let code = unsafe { with_held(self.0, id.to_bits(), Some(visit), (&raw mut state).cast::<c_void>()) };
        if let Some(panic) = state.panic {
            resume_unwind(panic);
        }
        code == OK
    }

    fn release(&mut self, id: HoldId, verdict: Verdict) -> bool {
        // SAFETY: as in `reserve`.
        let Some(release) = (unsafe { (*self.0).release }) else { return false };
        // SAFETY: as in `reserve`.
        unsafe { release(self.0, id.to_bits(), verdict.to_bits()) == OK }
    }
}

/// The host's files.
struct HostFiles(*mut abi::Ctx);

/// The most parts of one write; more are put together, which allocates.
const MAX_PARTS: usize = 16;

fn refused(code: Option<i32>) -> Result<(), Refused> {
    match code {
        Some(OK) => Ok(()),
        Some(abi::E_FULL) => Err(Refused::Full),
        Some(E_INVALID) => Err(Refused::TooLong),
        _ => Err(Refused::Absent),
    }
}

impl Storage for HostFiles {
    fn write(&mut self, file: File, parts: &[&[u8]], context: Option<u64>) -> Result<(), Refused> {
        if parts.len() > MAX_PARTS {
            return self.write(file, &[&parts.concat()], context);
        }
        let mut raw = [abi::Bytes { at: std::ptr::null(), len: 0 }; MAX_PARTS];
        for (raw, part) in raw.iter_mut().zip(parts) {
            *raw = abi::Bytes { at: part.as_ptr(), len: part.len() };
        }
        let context = context.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: the context is valid during the call that this value lives in; so are parts and context.
        refused(unsafe {
            (*self.0).write.map(|f| f(self.0, file.to_bits(), raw.as_ptr(), parts.len() as u32, context))
        })
    }

    fn read(&mut self, file: File, offset: u64, len: u32, context: u64) -> Result<(), Refused> {
        // SAFETY: as in `write`.
        refused(unsafe { (*self.0).read.map(|f| f(self.0, file.to_bits(), offset, len, context)) })
    }

    fn flush(&mut self, file: File) -> Result<(), Refused> {
        // SAFETY: as in `write`.
        refused(unsafe { (*self.0).flush.map(|f| f(self.0, file.to_bits())) })
    }
}
