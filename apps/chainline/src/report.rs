//! Words for people, on standard error: errors with an excerpt of the file.

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use chainline_chain::model::File;
use chainline_chain::{Diagnostic, Diagnostics, Severity, Span};
use std::io::{IsTerminal, Write, stderr};
use std::ops::Range;
use std::path::Path;

/// Everything that is wrong with a file, then how many errors there are.
pub fn diagnostics(all: &Diagnostics) {
    for d in all.items() {
        one(all.name(), all.text(), d);
    }
    let errors = all.errors();
    let plural = if errors == 1 { "" } else { "s" };
    error(&format!("{} has {errors} error{plural}", all.name().display()));
}

/// What is allowed in a file but looks like a mistake.
pub fn warnings(file: &File) {
    for d in &file.warnings {
        one(file.source.name(), file.source.text(), d);
    }
}

/// An error that has no place in a file.
pub fn error(message: &str) {
    print(&[Group::with_title(Level::ERROR.primary_title(message))], "\n");
}

/// A remark.
pub fn note(message: &str) {
    // Nothing can be done about a closed standard error.
    let _ = writeln!(stderr(), "{message}");
}

fn one(name: &Path, text: &str, d: &Diagnostic) {
    let name = name.display().to_string();
    let level = match d.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group = Group::with_title(level.primary_title(d.message.as_str()));
    let mut related = d.related.as_deref().and_then(|r| excerpt(text, r.span).map(|e| (r, e)));
    match excerpt(text, d.span) {
        None => group = group.element(Origin::path(&name).line(number(d.span.line)).char_column(number(d.span.column))),
        Some((line, at)) => {
            let mut snippet = Snippet::source(line).path(&name).line_start(number(d.span.line));
            snippet = snippet.annotation(AnnotationKind::Primary.span(at));
            // Both on one line: one excerpt shows both.
            if let Some((r, (_, at))) = related.take_if(|(r, _)| r.span.line == d.span.line) {
                snippet = snippet.annotation(AnnotationKind::Context.span(at).label(r.why.as_str()));
            }
            group = group.element(snippet);
        }
    }
    if let Some((r, (line, at))) = related {
        let snippet = Snippet::source(line).path(&name).line_start(number(r.span.line));
        group = group.element(snippet.annotation(AnnotationKind::Context.span(at).label(r.why.as_str())));
    }
    if let Some(help) = &d.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    // A blank line sets one off from the next.
    print(&[group], "\n\n");
}

fn number(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

/// The line that a place begins in, and where in it the place is. `None` for lines too long to show.
fn excerpt(text: &str, span: Span) -> Option<(&str, Range<usize>)> {
    const MAX_LINE: usize = 2000;
    let before = text.get(..span.start)?;
    let start = before.rfind('\n').map_or(0, |i| i + 1);
    let line = text.get(start..)?.lines().next().unwrap_or_default();
    let at = (span.start - start).min(line.len());
    let end = (span.end - start).clamp(at, line.len());
    (line.len() <= MAX_LINE && line.is_char_boundary(end)).then_some((line, at..end))
}

fn print(groups: &[Group<'_>], end: &str) {
    let renderer = if colours() { Renderer::styled() } else { Renderer::plain() };
    let _ = write!(stderr(), "{}{end}", renderer.render(groups).trim_end());
}

/// Colours are for terminals, unless <https://no-color.org> says no.
fn colours() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|t| t == "dumb");
    stderr().is_terminal() && !set("NO_COLOR") && !dumb
}
