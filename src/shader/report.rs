//! Shader errors with the author's line, and the line itself.

use super::include::SourceMap;
use std::fmt::Write as _;
use std::ops::Range;

/// Which step refused a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The text is not WGSL.
    Parse,
    /// The module is not valid, or needs what the device lacks.
    Validate,
    /// Entry points, bindings or parameters do not fit.
    Interface,
    /// A limit of the device is exceeded.
    Limits,
    /// SPIR-V could not be written.
    Codegen,
}

/// Why a source did not become a program.
///
/// Its text starts with `key:line:column:` where the fault lies in the author's text, or with `key: field:` where
/// it lies in a declared binding or parameter, and goes on with the source line and a marker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ShaderError {
    /// Which step refused it.
    pub stage: Stage,
    /// Line in the author's text, from 1; in the included file for a fault there.
    pub line: Option<u32>,
    /// Column in that line, in characters, from 1.
    pub column: Option<u32>,
    /// The declared entry at fault, such as `bindings[2].element`, where the fault is in none of the author's lines.
    pub field: Option<String>,
    /// The message alone.
    pub message: String,
    text: String,
}

/// The text that naga sees: the author's, and behind it the generated declarations.
pub(super) struct Text<'a> {
    pub key: &'a str,
    pub full: &'a str,
    /// Where the author's text starts: behind a directive that the declarations need, in its first line.
    pub start: usize,
    /// Where the author's text ends.
    pub author: usize,
    /// Ranges of the generated declarations and the field each comes from.
    pub fields: &'a [(Range<usize>, String)],
    /// Where the lines of the author's text come from, when it has includes.
    pub map: Option<&'a SourceMap>,
}

impl Text<'_> {
    /// An error at a place, with further lines of explanation.
    pub fn error(&self, stage: Stage, at: Option<Range<usize>>, message: String, notes: &[String]) -> ShaderError {
        let mut text = String::new();
        let (mut position, mut field) = (None, None);
        // Behind the last declaration, or between two, means that the author's text ended too early.
        let at = at.map(|range| match range.start >= self.author && self.field(range.start).is_none() {
            true => self.end()..self.end(),
            false => range,
        });
        match at {
            Some(range) if range.start < self.author || self.field(range.start).is_none() => {
                let (whole, column) = self.position(range.start);
                let (file, line) = self.origin(whole);
                position = Some((line, column));
                let _ = write!(text, "{file}:{line}:{column}: {message}");
                self.quote(&mut text, whole, line, column, &range);
            }
            Some(range) => {
                field = self.field(range.start).map(str::to_owned);
                let _ = write!(text, "{}: {}: {message}", self.key, field.as_deref().unwrap_or_default());
            }
            None => {
                let _ = write!(text, "{}: {message}", self.key);
            }
        }
        for note in notes {
            let _ = write!(text, "\n  note: {note}");
        }
        ShaderError { stage, line: position.map(|p| p.0), column: position.map(|p| p.1), field, message, text }
    }

    /// The declared entry that a place in the generated text comes from.
    fn field(&self, at: usize) -> Option<&str> {
        self.fields.iter().find(|(range, _)| range.contains(&at)).map(|(_, field)| field.as_str())
    }

    /// Behind the last character of the author's text that is no space.
    fn end(&self) -> usize {
        self.start + self.own().trim_end().len()
    }

    /// A line for a place beside the one that an error is reported at.
    pub fn note(&self, at: Option<Range<usize>>, label: &str) -> String {
        match at {
            Some(range) if range.start < self.author => {
                let (whole, column) = self.position(range.start);
                let (file, line) = self.origin(whole);
                let file = if file == self.key { String::new() } else { format!("{file}:") };
                format!("{label}, at {file}{line}:{column}")
            }
            Some(range) => match self.field(range.start) {
                Some(field) => format!("{label}, in {field}"),
                None => label.to_owned(),
            },
            None => label.to_owned(),
        }
    }

    fn position(&self, at: usize) -> (u32, u32) {
        let before = self.full.get(self.start..at).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |n| n + 1);
        let line = before.matches('\n').count() as u32 + 1;
        (line, before[start..].chars().count() as u32 + 1)
    }

    /// The author's text.
    fn own(&self) -> &str {
        self.full.get(self.start..self.author).unwrap_or(self.full)
    }

    /// File and line that a line of the whole text comes from.
    fn origin(&self, line: u32) -> (&str, u32) {
        self.map.and_then(|map| map.origin(line)).unwrap_or((self.key, line))
    }

    fn quote(&self, text: &mut String, whole: u32, line: u32, column: u32, range: &Range<usize>) {
        let Some(source) = self.own().lines().nth(whole as usize - 1) else { return };
        let number = line.to_string();
        let gap = " ".repeat(number.len());
        let left = source.chars().count().saturating_sub(column as usize - 1);
        let marks =
            self.full.get(range.clone()).map_or(1, |s| s.chars().take_while(|c| *c != '\n').count()).min(left).max(1);
        // Tabs stay tabs before the marker, so that it stands under what it marks.
        let indent: String =
            source.chars().take(column as usize - 1).map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let _ = write!(text, "\n {gap} |\n {number} | {source}\n {gap} | {indent}{}", "^".repeat(marks));
    }
}
