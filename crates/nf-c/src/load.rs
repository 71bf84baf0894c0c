//! Opening a shared object and believing nothing it says before it is checked.

use crate::abi;
use crate::footprint;
use crate::instance;
use crate::text;
use chainline_nf::{Env, Error, Footprint, NfObject};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest argument schema, in bytes.
const MAX_SCHEMA: usize = 1 << 20;

/// Why a shared object cannot serve as an NF.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is not there, or the dynamic linker refuses it.
    #[error("cannot load {}: {message}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// The system's or the linker's word.
        message: String,
    },
    /// It does not export the function.
    #[error("{} exports no function `{}`: it is not an NF, or one for another major version", path.display(), abi::SYMBOL)]
    NoSymbol {
        /// The file.
        path: PathBuf,
    },
    /// The function returned NULL or something that cannot be the address of a table.
    #[error("{}: `{}` returned {found}; expected the address of a `struct chainline_nf`", path.display(), abi::SYMBOL)]
    NoTable {
        /// The file.
        path: PathBuf,
        /// What it returned.
        found: String,
    },
    /// It was made for another version of the ABI.
    #[error("{} speaks ABI version {found}; this host speaks {expected}: rebuild it with this host's chainline_nf.h", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// Ours.
        expected: u32,
    },
    /// One of its structures has another size.
    #[error("{}: `struct {structure}` has {found} bytes there and {expected} here: rebuild it with this host's chainline_nf.h", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
        /// The structure.
        structure: &'static str,
        /// Its size there.
        found: u32,
        /// Its size here.
        expected: u32,
    },
    /// A field is wrong.
    #[error("{}: `{field}`: {message}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// The field of `struct chainline_nf`.
        field: &'static str,
        /// What was found and what was expected.
        message: String,
    },
}

/// The functions of an NF, all that must be there being there.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub create: unsafe extern "C" fn(*const std::ffi::c_char, *mut abi::Env, *mut *mut std::ffi::c_void) -> i32,
    pub process: unsafe extern "C" fn(*mut std::ffi::c_void, *mut abi::Packet, u32, *mut abi::Ctx) -> i32,
    pub tick: Option<unsafe extern "C" fn(*mut std::ffi::c_void, *mut abi::Ctx) -> i32>,
    pub report: Option<Report>,
    pub destroy: Option<unsafe extern "C" fn(*mut std::ffi::c_void)>,
    pub completed: Option<unsafe extern "C" fn(*mut std::ffi::c_void, *const abi::Completion, *mut abi::Ctx) -> i32>,
}

type Write = unsafe extern "C" fn(*mut std::ffi::c_void, *const std::ffi::c_char, usize);
type Report = unsafe extern "C" fn(*const std::ffi::c_void, Option<Write>, *mut std::ffi::c_void) -> i32;

/// A kind of NF from a shared object; the counterpart of [`chainline_nf::Kind`]. Cheap to clone.
#[derive(Clone)]
pub struct LoadedKind(Arc<Inner>);

struct Inner {
    path: PathBuf,
    name: String,
    about: String,
    schema: serde_json::Value,
    footprint: Option<Footprint>,
    validator: jsonschema::Validator,
    table: Table,
}

impl std::fmt::Display for LoadedKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.0.name, self.0.path.display())
    }
}

impl std::fmt::Debug for LoadedKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LoadedKind({self})")
    }
}

/// Loads a shared object and checks its ABI version, layout, texts and schema. Its constructors run in this process.
///
/// # Errors
/// [`LoadError`]; the object is unloaded again.
pub fn load(path: impl AsRef<Path>) -> Result<LoadedKind, LoadError> {
    let path = path.as_ref();
    let open = |message: String| LoadError::Open { path: path.to_owned(), message };
    // A name without a slash would be searched for in the linker's path.
    let full = path.canonicalize().map_err(|e| open(e.to_string()))?;
    // SAFETY: the operator named this file as code to run; its constructors are trusted as the program itself.
    let library = unsafe { libloading::Library::new(&full) }.map_err(|e| open(reason(&e)))?;
    // SAFETY: the name stands for this type by the ABI; nothing but that name can be checked.
    let entry = unsafe { library.get::<unsafe extern "C" fn() -> *const abi::Nf>(abi::SYMBOL) }
        .map_err(|_| LoadError::NoSymbol { path: path.to_owned() })?;
    // SAFETY: as above.
    let table = unsafe { entry() };
    // SAFETY: it is what the function returned, and the object stays loaded.
    let kind = unsafe { LoadedKind::from_table(path, table) }?;
    // Nobody can tell whether the object left a thread or a thread-local destructor behind.
    std::mem::forget(library);
    Ok(kind)
}

/// The linker's word without what surrounds it.
fn reason(e: &libloading::Error) -> String {
    std::error::Error::source(e).map_or_else(|| e.to_string(), ToString::to_string)
}

impl LoadedKind {
    /// Checks a table; `path` is for messages.
    ///
    /// # Safety
    /// `table` is whatever the entry function of an NF returned. If it is the address of a table that starts with its
    /// size, then it is valid for that size, and so it stays, with all it points to, as long as this value lives.
    pub(crate) unsafe fn from_table(path: &Path, table: *const abi::Nf) -> Result<Self, LoadError> {
        let path = path.to_owned();
        if table.is_null() || !table.is_aligned() {
            let found = if table.is_null() { "NULL".into() } else { format!("{table:p}") };
            return Err(LoadError::NoTable { path, found });
        }
        // Only the first two fields exist in every version.
        // SAFETY: each table has them.
        let (size, version) =
            unsafe { ((&raw const (*table).struct_size).read(), (&raw const (*table).abi_version).read()) };
        if version != abi::ABI_VERSION {
            return Err(LoadError::Version { path, found: version, expected: abi::ABI_VERSION });
        }
        let layout = |structure, found, expected: usize| LoadError::Layout {
            path: path.clone(),
            structure,
            found,
            expected: expected as u32,
        };
        // A longer one was made with a newer header of the same version: what we know of it stands first. A shorter one
        // with an older header: what it does not have is absent.
        if (size as usize) < abi::FIRST_NF_BYTES {
            return Err(layout("chainline_nf", size, abi::FIRST_NF_BYTES));
        }
        let mut nf = MaybeUninit::<abi::Nf>::zeroed();
        // SAFETY: the table has `size` bytes, and `nf` its own size; zeros are NULL in each field behind those of the table.
        let nf = unsafe {
            let len = (size as usize).min(size_of::<abi::Nf>());
            std::ptr::copy_nonoverlapping(table.cast::<u8>(), nf.as_mut_ptr().cast::<u8>(), len);
            nf.assume_init()
        };
        if nf.packet_size as usize != size_of::<abi::Packet>() {
            return Err(layout("chainline_packet", nf.packet_size, size_of::<abi::Packet>()));
        }
        // An NF that expects more than we offer would read beyond it.
        if nf.ctx_size as usize > size_of::<abi::Ctx>() {
            return Err(layout("chainline_ctx", nf.ctx_size, size_of::<abi::Ctx>()));
        }
        if nf.env_size as usize > size_of::<abi::Env>() {
            return Err(layout("chainline_env", nf.env_size, size_of::<abi::Env>()));
        }
        let wrong = |field, message: String| LoadError::Field { path: path.clone(), field, message };
        let missing = |field| wrong(field, "NULL; expected a function".into());
        let table = Table {
            create: nf.create.ok_or_else(|| missing("create"))?,
            process: nf.process.ok_or_else(|| missing("process"))?,
            tick: nf.tick,
            report: nf.report,
            destroy: nf.destroy,
            completed: nf.completed,
        };
        // SAFETY: texts of a valid table end with a NUL.
        let words = |at, field, max| unsafe { text::read(at, max) }.map_err(|e| wrong(field, e.to_string()));
        let name = words(nf.kind, "kind", text::MAX_WORDS)?;
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(wrong("kind", format!("{name:?}; expected a word")));
        }
        let about = words(nf.about, "about", text::MAX_WORDS)?;
        let schema = if nf.args_schema.is_null() {
            // No schema: no arguments.
            serde_json::json!({"type": "object", "additionalProperties": false})
        } else {
            let json = words(nf.args_schema, "args_schema", MAX_SCHEMA)?;
            serde_json::from_str(&json).map_err(|e| wrong("args_schema", format!("not JSON: {e}")))?
        };
        let validator =
            jsonschema::validator_for(&schema).map_err(|e| wrong("args_schema", format!("not a JSON Schema: {e}")))?;
        // SAFETY: it is the table's, valid as that is.
        let footprint = unsafe { footprint::read(nf.footprint) }.map_err(|e| wrong("footprint", e))?;
        Ok(Self(Arc::new(Inner { path, name, about, schema, footprint, validator, table })))
    }

    /// The NF's word for itself.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// One line.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.0.about
    }

    /// The file, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// JSON Schema of the arguments.
    #[must_use]
    pub fn args_schema(&self) -> &serde_json::Value {
        &self.0.schema
    }

    /// What it reads, writes and remembers, if it says so.
    #[must_use]
    pub fn footprint(&self) -> Option<Footprint> {
        self.0.footprint
    }

    /// Checks arguments against the NF's schema, without calling the NF.
    ///
    /// # Errors
    /// [`Error::Args`] with everything that is wrong.
    pub fn check_args(&self, args: &serde_json::Value) -> Result<(), Error> {
        let problems: Vec<String> = self
            .0
            .validator
            .iter_errors(args)
            .map(|e| format!("args{}: {e}", e.instance_path().as_str().replace('/', ".")))
            .collect();
        if problems.is_empty() { Ok(()) } else { Err(Error::Args(problems.join("; "))) }
    }

    /// Checks the arguments and builds the NF.
    ///
    /// # Errors
    /// [`Error::Args`] from the schema, [`Error::Library`] with the NF's own message.
    pub fn build(&self, args: serde_json::Value, env: &mut Env<'_>) -> Result<Box<dyn NfObject>, Error> {
        // An absent `args:` is an empty one.
        let args = if args.is_null() { serde_json::Value::Object(Default::default()) } else { args };
        self.check_args(&args)?;
        instance::create(self, self.0.table, &args, env)
    }
}

#[cfg(feature = "golden")]
impl chainline_nf::golden::Subject for LoadedKind {
    fn build(&self, args: serde_json::Value, env: &mut Env<'_>) -> Result<Box<dyn NfObject>, Error> {
        LoadedKind::build(self, args, env)
    }
}
