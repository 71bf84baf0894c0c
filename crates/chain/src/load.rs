//! Text to a checked file.

use crate::diag::{Diagnostics, Severity, Source, Span};
use crate::model::File;
use crate::{Diagnostic, check, decode, tree};
use std::path::Path;
use std::sync::Arc;

/// What is known of the surroundings of a file. What is not known is not checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host<'a> {
    /// The cores that NFs may run on.
    pub cores: Option<&'a [usize]>,
    /// The built-in kinds of NF.
    pub kinds: Option<&'a [&'a str]>,
}

/// Loads a chain file: YAML 1.2 or JSON. `name` is for messages.
///
/// # Errors
/// Everything that is wrong with it, not only the first.
pub fn load(text: &str, name: &Path) -> Result<File, Diagnostics> {
    load_for(text, name, &Host::default())
}

/// [`load`], checked against what is known of the host.
///
/// # Errors
/// Everything that is wrong with it, not only the first.
pub fn load_for(text: &str, name: &Path, host: &Host<'_>) -> Result<File, Diagnostics> {
    let shared: Arc<str> = text.into();
    let mut found = Vec::new();
    let root = match tree::parse(text, "service chain", &mut found) {
        Ok(root) => root,
        Err(e) => {
            found.push(e);
            return Err(Diagnostics::new(name, &shared, found));
        }
    };
    let (mut file, broken) = decode::file(&root, &mut found);
    let (spans, keys) = tree::places(&root);
    file.source = Source { name: name.to_owned(), text: shared.clone(), spans, keys };
    found.extend(check::check(&file, &broken, host));
    file.warnings = settle(name, &shared, found)?;
    Ok(file)
}

/// The warnings, if there are no errors.
pub(crate) fn settle(name: &Path, text: &Arc<str>, mut found: Vec<Diagnostic>) -> Result<Vec<Diagnostic>, Diagnostics> {
    if found.iter().any(|d| d.severity == Severity::Error) {
        // A warning may be no more than the consequence of an error.
        found.retain(|d| d.severity == Severity::Error);
        if found.len() >= decode::MAX_DIAGNOSTICS {
            found.truncate(decode::MAX_DIAGNOSTICS - 1);
            let last = found.iter().map(|d| d.span).max_by_key(|s| s.start).unwrap_or_default();
            found.push(Diagnostic::error(last, "there are more errors than are shown"));
        }
        return Err(Diagnostics::new(name, text, found));
    }
    Ok(Diagnostics::new(name, text, found).items)
}

/// [`load_for`] on bytes that may not be text.
///
/// # Errors
/// Everything that is wrong with it, not only the first.
pub fn load_bytes(bytes: &[u8], name: &Path, host: &Host<'_>) -> Result<File, Diagnostics> {
    load_for(utf8(bytes, name)?, name, host)
}

/// Bytes as text.
pub(crate) fn utf8<'b>(bytes: &'b [u8], name: &Path) -> Result<&'b str, Diagnostics> {
    std::str::from_utf8(bytes).map_err(|e| {
        let good = String::from_utf8_lossy(&bytes[..e.valid_up_to()]);
        let line = good.bytes().filter(|b| *b == b'\n').count() + 1;
        let column = good.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let small = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let span = Span { line: small(line), column: small(column), start: good.len(), end: good.len() };
        let byte = bytes.get(e.valid_up_to()).copied().unwrap_or_default();
        let message = format!("found the byte {byte:#04x}, expected UTF-8 text");
        Diagnostics::new(name, &good.as_ref().into(), vec![Diagnostic::error(span, message)])
    })
}

/// Checks a file that was loaded elsewhere or put together in memory.
///
/// # Errors
/// When it has errors.
pub fn recheck(file: &File, host: &Host<'_>) -> Result<(), Diagnostics> {
    let mut found = check::check(file, &decode::Broken::default(), host);
    found.retain(|d| d.severity == Severity::Error);
    if found.is_empty() { Ok(()) } else { Err(Diagnostics::new(&file.source.name, &file.source.text, found)) }
}
