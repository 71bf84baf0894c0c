//! The host's side of `struct chainline_env`: what an NF may ask while it is created.

use crate::abi::{self, E_ABSENT, E_FAILED, E_FULL, E_INVALID, OK};
use crate::export::c_string;
use crate::text::{self, MAX_WORDS};
use chainline_nf::{Access, Durable, Env, FileSpec, Verdict};
use std::ffi::{CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// More counters than any NF has a use for.
const MAX_COUNTERS: u32 = 1 << 16;

/// What stands behind the pointer `host` during `create`.
pub(crate) struct HostEnv<'a, 'e> {
    env: &'a mut Env<'e>,
    args: &'a serde_json::Value,
    /// Why `create` failed.
    pub message: Option<String>,
    counters: u32,
    reasons: u32,
}

impl<'a, 'e> HostEnv<'a, 'e> {
    pub fn new(env: &'a mut Env<'e>, args: &'a serde_json::Value) -> Self {
        Self { env, args, message: None, counters: 0, reasons: 0 }
    }

    /// Calls `f` with the structure that the NF gets.
    pub fn lend<R>(&mut self, f: impl FnOnce(*mut abi::Env) -> R) -> R {
        let dir = CString::new(self.env.dir().as_os_str().as_bytes()).unwrap_or_default();
        let names: Vec<CString> = self.env.targets().iter().map(|t| c_string(t)).collect();
        let names: Vec<*const c_char> = names.iter().map(|n| n.as_ptr()).collect();
        let mut lent = abi::Env {
            struct_size: size_of::<abi::Env>() as u32,
            n_targets: names.len() as u32,
            dir: dir.as_ptr(),
            targets: names.as_ptr(),
            counter: Some(counter),
            drop_reason: Some(drop_reason),
            target: Some(target),
            path: Some(path),
            arg_u64: Some(arg_u64),
            arg_text: Some(arg_text),
            open: Some(open),
            may_hold_each: Some(may_hold_each),
            fail: Some(fail),
            host: std::ptr::from_mut(self).cast::<c_void>(),
        };
        f(&raw mut lent)
    }

    /// The reason's index.
    pub fn reason(&mut self, name: &str) -> u32 {
        let index = Verdict::drop(self.env.drop_reason(name)).to_bits() & 0xff;
        self.reasons = self.reasons.max(index + 1);
        index
    }

    /// Number of reasons so far.
    pub fn reasons(&self) -> u32 {
        self.reasons
    }

    fn refuse(&mut self, message: String) -> i32 {
        self.message.get_or_insert(message);
        E_INVALID
    }
}

/// Runs `f` on the host's structure. No panic may cross into C.
///
/// # Safety
/// `env` is what [`HostEnv::lend`] handed to the NF whose call is still running.
unsafe fn with(env: *mut abi::Env, f: impl FnOnce(&mut HostEnv<'_, '_>) -> i32) -> i32 {
    if env.is_null() {
        return E_INVALID;
    }
    // SAFETY: `env` is ours (the caller's word), and `host` was set by `lend` to a value that outlives the call.
    // Nobody else uses it meanwhile: the host waits, and NFs call from the thread they were called on.
    let host = unsafe { &mut *(*env).host.cast::<HostEnv<'_, '_>>() };
    catch_unwind(AssertUnwindSafe(|| f(host))).unwrap_or(E_FAILED)
}

/// Text that the NF handed over.
///
/// # Safety
/// As [`text::read`].
unsafe fn words(host: &mut HostEnv<'_, '_>, what: &str, at: *const c_char) -> Result<String, i32> {
    // SAFETY: the caller's word.
    unsafe { text::read(at, MAX_WORDS) }.map_err(|e| host.refuse(format!("{what}: {e}")))
}

/// Stores an answer.
///
/// # Safety
/// `out` is NULL or writable.
unsafe fn answer<T>(out: *mut T, value: T) -> i32 {
    if out.is_null() {
        return E_INVALID;
    }
    // SAFETY: not NULL, hence writable.
    unsafe { out.write(value) };
    OK
}

/// Stores text with its NUL.
///
/// # Safety
/// `out` is NULL or writable for `size` bytes.
unsafe fn answer_text(out: *mut c_char, size: usize, bytes: &[u8]) -> i32 {
    if out.is_null() || bytes.contains(&0) {
        return E_INVALID;
    }
    if bytes.len() >= size {
        return E_FULL;
    }
    // SAFETY: `size` bytes are writable, more than are copied; the NF's memory is not ours.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast::<u8>(), bytes.len());
        out.add(bytes.len()).write(0);
    }
    OK
}

unsafe extern "C" fn counter(
    env: *mut abi::Env,
    name: *const c_char,
    unit: *const c_char,
    help: *const c_char,
    index: *mut u32,
) -> i32 {
    let declare = |host: &mut HostEnv<'_, '_>| {
        // SAFETY: the NF hands over text that ends with a NUL.
        let all = unsafe {
            words(host, "counter name", name)
                .and_then(|n| Ok((n, words(host, "counter unit", unit)?, words(host, "counter help", help)?)))
        };
        let (name, unit, help) = match all {
            Ok(all) => all,
            Err(code) => return code,
        };
        if name.is_empty() {
            return host.refuse("a counter without a name".into());
        }
        if host.counters == MAX_COUNTERS {
            host.refuse(format!("more than {MAX_COUNTERS} counters"));
            return E_FULL;
        }
        host.env.counter(name, &unit, help);
        host.counters += 1;
        // SAFETY: `index` is NULL or the NF's own.
        unsafe { answer(index, host.counters - 1) }
    };
    // SAFETY: the NF hands back the `env` that it was given.
    unsafe { with(env, declare) }
}

unsafe extern "C" fn drop_reason(env: *mut abi::Env, name: *const c_char, index: *mut u32) -> i32 {
    let declare = |host: &mut HostEnv<'_, '_>| {
        // SAFETY: the NF hands over text that ends with a NUL.
        match unsafe { words(host, "drop reason", name) } {
            Ok(name) if name.is_empty() => host.refuse("a drop reason without a name".into()),
            Ok(name) => {
                let reason = host.reason(&name);
                // SAFETY: `index` is NULL or the NF's own.
                unsafe { answer(index, reason) }
            }
            Err(code) => code,
        }
    };
    // SAFETY: the NF hands back the `env` that it was given.
    unsafe { with(env, declare) }
}

unsafe extern "C" fn target(env: *mut abi::Env, name: *const c_char, index: *mut u32) -> i32 {
    let find = |host: &mut HostEnv<'_, '_>| {
        // SAFETY: the NF hands over text that ends with a NUL.
        let name = match unsafe { words(host, "target", name) } {
            Ok(name) => name,
            Err(code) => return code,
        };
        match host.env.target(&name) {
            // SAFETY: `index` is NULL or the NF's own.
            Ok(target) => unsafe { answer(index, Verdict::divert(target).to_bits() & 0xff) },
            Err(e) => {
                host.refuse(e.to_string());
                E_ABSENT
            }
        }
    };
    // SAFETY: the NF hands back the `env` that it was given.
    unsafe { with(env, find) }
}

unsafe extern "C" fn path(env: *mut abi::Env, path: *const c_char, out: *mut c_char, size: usize) -> i32 {
    let join = |host: &mut HostEnv<'_, '_>| {
        // SAFETY: the NF hands over text that ends with a NUL.
        match unsafe { words(host, "path", path) } {
            // SAFETY: `out` is NULL or the NF's own, of `size` bytes.
            Ok(p) => unsafe { answer_text(out, size, host.env.path(p).as_os_str().as_bytes()) },
            Err(code) => code,
        }
    };
    // SAFETY: the NF hands back the `env` that it was given.
    unsafe { with(env, join) }
}

unsafe extern "C" fn arg_u64(env: *mut abi::Env, pointer: *const c_char, out: *mut u64) -> i32 {
    let find = |host: &mut HostEnv<'_, '_>| {
        // SAFETY: the NF hands over text that ends with a NUL.
        let pointer = match unsafe { words(host, "argument", pointer) } {
            Ok(pointer) => pointer,
            Err(code) => return code,
        };
        match host.args.pointer(&pointer) {
            None => E_ABSENT,
            Some(value) => match value.as_u64() {
                // SAFETY: `out` is NULL or the NF's own.
                Some(n) => unsafe { answer(out, n) },
                None => E_INVALID,
            },
        }
    };
    // SAFETY: the NF hands back the `env` that it was given.
    unsafe { with(env, find) }
}

unsafe extern "C" fn arg_text(env: *mut abi::Env, pointer: *const c_char, out: *mut c_char, size: usize) -> i32 {
    let find = |host: &mut HostEnv<'_, '_>| {
        // SAFETY: the NF hands over text that ends with a NUL.
        let pointer = match unsafe { words(host, "argument", pointer) } {
            Ok(pointer) => pointer,
            Err(code) => return code,
        };
        match host.args.pointer(&pointer) {
            None => E_ABSENT,
            Some(value) => match value.as_str() {
                // SAFETY: `out` is NULL or the NF's own, of `size` bytes.
                Some(s) => unsafe { answer_text(out, size, s.as_bytes()) },
                None => E_INVALID,
            },
        }
    };
    // SAFETY: the NF hands back the `env` that it was given.
    unsafe { with(env, find) }
}

/// The longest `head` of a file.
const MAX_HEAD: usize = 1 << 20;

unsafe extern "C" fn open(env: *mut abi::Env, path: *const c_char, spec: *const abi::FileSpec, file: *mut u32) -> i32 {
    let name = |host: &mut HostEnv<'_, '_>| {
        // SAFETY: the NF hands over text that ends with a NUL.
        let path = match unsafe { words(host, "path", path) } {
            Ok(path) => path,
            Err(code) => return code,
        };
        // SAFETY: `spec` is NULL or the NF's own.
        let Some(c) = (unsafe { spec.as_ref() }) else { return E_INVALID };
        let access = match c.access {
            abi::FILE_READ => Access::Read,
            abi::FILE_APPEND => Access::Append { keep: (c.keep != abi::KEEP_ALL).then_some(c.keep) },
            other => return host.refuse(format!("{path}: access {other}; expected 0 or 1")),
        };
        let durable = match c.durable {
            abi::DURABLE_NEVER => Durable::Never,
            abi::DURABLE_AT_END => Durable::AtEnd,
            abi::DURABLE_EACH_BATCH => Durable::EachBatch,
            other => return host.refuse(format!("{path}: durable {other}; expected 0, 1 or 2")),
        };
        if c.head_len > MAX_HEAD {
            return host.refuse(format!("{path}: a head of {} bytes; expected at most {MAX_HEAD}", c.head_len));
        }
        let head = if c.head.is_null() {
            Vec::new()
        } else {
            // SAFETY: the NF vouches for `head_len` readable bytes.
            unsafe { std::slice::from_raw_parts(c.head, c.head_len) }.to_vec()
        };
        let spec = FileSpec {
            path: path.into(),
            access,
            head,
            batch_bytes: c.batch_bytes,
            flush_ms: c.flush_ms,
            packet_bytes: c.packet_bytes,
            durable,
            reads: c.reads,
            read_bytes: c.read_bytes,
            // The ABI has no words for these.
            limit_bytes: None,
            blocking: false,
        };
        match host.env.open(spec) {
            // SAFETY: `file` is NULL or the NF's own.
            Ok(f) => unsafe { answer(file, f.to_bits()) },
            Err(e) => host.refuse(e.to_string()),
        }
    };
    // SAFETY: the NF hands back the `env` that it was given.
    unsafe { with(env, name) }
}

unsafe extern "C" fn may_hold_each(env: *mut abi::Env) -> i32 {
    let declare = |host: &mut HostEnv<'_, '_>| {
        host.env.may_hold_each();
        OK
    };
    // SAFETY: the NF hands back the `env` that it was given.
    unsafe { with(env, declare) }
}

unsafe extern "C" fn fail(env: *mut abi::Env, message: *const c_char) {
    let keep = |host: &mut HostEnv<'_, '_>| {
        // SAFETY: the NF hands over text that ends with a NUL.
        if let Ok(message) = unsafe { words(host, "message", message) } {
            host.message = Some(message);
        }
        OK
    };
    // SAFETY: the NF hands back the `env` that it was given.
    unsafe { with(env, keep) };
}
