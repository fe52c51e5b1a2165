//! Parsing, and the errors of it and of overrides.

use super::report::{ShaderError, Stage, Text};
use naga::Module;
use naga::back::pipeline_constants::PipelineConstantError;
use std::ops::Range;

/// Parses the author's text with the declarations behind it.
///
/// # Errors
/// What is not WGSL, with every place that naga labels.
pub(super) fn parse(text: &Text<'_>) -> Result<Module, ShaderError> {
    let author = text.full.get(..text.author).unwrap_or(text.full);
    fn place(e: &naga::front::wgsl::ParseError) -> Option<Range<usize>> {
        e.labels().find_map(|(span, _)| span.to_range())
    }
    let error = match naga::front::wgsl::parse_str(text.full) {
        Ok(module) => return Ok(module),
        Err(error) => error,
    };
    // What the author left open swallows the declarations, and the fault shows among them. Alone, the author's text
    // shows it at its end.
    let behind = place(&error).is_some_and(|at| at.start >= author.len());
    let alone = behind.then(|| naga::front::wgsl::parse_str(author).err()).flatten();
    let cut_short = |e: &naga::front::wgsl::ParseError| place(e).is_some_and(|at| at.start >= author.trim_end().len());
    let error = alone.filter(cut_short).unwrap_or(error);
    let at = place(&error);
    let mut labels = error.labels().filter(|(span, _)| span.is_defined());
    let mut message = error.message().replace("found \"\"", "found the end of the source");
    if let Some((_, label)) = labels.next().filter(|(_, label)| !message.contains(label)) {
        message = format!("{message}: {label}");
    }
    let mut notes: Vec<String> = labels.map(|(span, label)| text.note(span.to_range(), label)).collect();
    notes.extend(error.notes().map(str::to_owned));
    Err(text.error(Stage::Parse, at, message, &notes))
}

/// What is wrong with the overrides of a module.
pub(super) fn override_error(module: &Module, error: &PipelineConstantError, text: &Text<'_>) -> ShaderError {
    let (at, notes) = match error {
        PipelineConstantError::MissingValue(key) => {
            let missing = module.overrides.iter().find(|(_, o)| match o.id {
                Some(id) => id.to_string() == *key,
                None => o.name.as_ref() == Some(key),
            });
            let at = missing.and_then(|(handle, _)| module.overrides.get_span(handle).to_range());
            (at, vec!["give every override a default value".to_owned()])
        }
        _ => (None, Vec::new()),
    };
    text.error(Stage::Interface, at, format!("override constants: {}", super::compile::chain(error)), &notes)
}
