//! `#include "name"`: lines of other files in place of a line, with every line's origin remembered.
//!
//! A file is taken in once; further includes of it leave an empty line, since WGSL has no way to guard against
//! declaring twice. A file that includes itself, by whatever way round, is an error that shows the way.

use super::report::{ShaderError, Stage, Text};
use super::schema::ProgramSource;

/// Includes that come with the crate: name and text. Checked when the crate is built.
pub const BUILT_IN: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

/// A source with all its includes at most, in bytes.
const MOST: usize = 16 << 20;

/// Where each line of an expanded source comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceMap {
    /// The files, the author's own first.
    files: Vec<String>,
    /// File and line, from 1, of each line. Empty for a source without includes.
    lines: Vec<(u32, u32)>,
}

impl SourceMap {
    /// File and line of a line of the expanded source, both counted from 1. `None` for the author's own line as it
    /// stands.
    #[must_use]
    pub fn origin(&self, line: u32) -> Option<(&str, u32)> {
        let (file, line) = *self.lines.get((line as usize).checked_sub(1)?)?;
        Some((self.files.get(file as usize)?, line))
    }

    /// Names of the included files.
    #[must_use]
    pub fn included(&self) -> &[String] {
        self.files.get(1..).unwrap_or_default()
    }
}

/// Replaces the include lines of a program's source. `find` gives the text behind a name; names that it does not
/// know are looked for among the built-in ones.
///
/// # Errors
/// A name that nothing is known under, a cycle, a malformed line: with file, line and column.
pub fn expand(p: &mut ProgramSource, find: &dyn Fn(&str) -> Option<String>) -> Result<(), ShaderError> {
    if !p.source.lines().any(|l| directive(l).is_some()) {
        return Ok(());
    }
    let mut out = Expansion { find, text: String::new(), map: SourceMap::default(), open: Vec::new() };
    out.file(p.file(), &p.source)?;
    p.source = out.text;
    p.map = out.map;
    Ok(())
}

/// The part of an include line behind the word, if it is one.
fn directive(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("#include")
}

struct Expansion<'a> {
    find: &'a dyn Fn(&str) -> Option<String>,
    text: String,
    map: SourceMap,
    /// The files being read, outermost first.
    open: Vec<String>,
}

impl Expansion<'_> {
    fn file(&mut self, name: &str, source: &str) -> Result<(), ShaderError> {
        let file = self.map.files.len() as u32;
        self.map.files.push(name.to_owned());
        self.open.push(name.to_owned());
        let mut at = 0;
        for (number, line) in (1..).zip(source.split_inclusive('\n')) {
            let start = at;
            at += line.len();
            let Some(rest) = directive(line) else {
                self.text.push_str(line.trim_end_matches(['\n', '\r']));
                self.end_line(file, number);
                continue;
            };
            let place = start..start + line.trim_end().len();
            let fail = |message: String| {
                Err(Text { key: name, full: source, start: 0, author: source.len(), fields: &[], map: None }.error(
                    Stage::Parse,
                    Some(place.clone()),
                    message,
                    &[],
                ))
            };
            let Some(wanted) = quoted(rest) else {
                return fail("an include is written #include \"name\"".to_owned());
            };
            if let Some(first) = self.open.iter().position(|f| f == wanted) {
                let way: Vec<&str> = self.open[first..].iter().map(String::as_str).chain([wanted]).collect();
                return fail(format!("the include goes in a circle: {}", way.join(" -> ")));
            }
            if !self.map.files.iter().any(|f| f == wanted) {
                let found = (self.find)(wanted)
                    .or_else(|| BUILT_IN.iter().find(|(n, _)| *n == wanted).map(|(_, text)| (*text).to_owned()));
                let Some(found) = found else {
                    let built_in: Vec<&str> = BUILT_IN.iter().map(|(n, _)| *n).collect();
                    return fail(format!("nothing is known as \"{wanted}\"; built in are {}", built_in.join(", ")));
                };
                if self.text.len() + found.len() > MOST {
                    return fail(format!("the source with its includes is over {MOST} bytes"));
                }
                self.file(wanted, &found)?;
            }
            self.end_line(file, number);
        }
        self.open.pop();
        Ok(())
    }

    fn end_line(&mut self, file: u32, number: u32) {
        self.text.push('\n');
        self.map.lines.push((file, number));
    }
}

/// The name between quotes, with nothing else but a comment behind it.
fn quoted(rest: &str) -> Option<&str> {
    let (name, behind) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    let behind = behind.trim();
    (!name.is_empty() && (behind.is_empty() || behind.starts_with("//"))).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::super::{Interface, compile, tests::target};
    use super::*;

    fn program(source: &str) -> ProgramSource {
        ProgramSource::new("k", source, Interface::REFLECTED)
    }

    fn files(name: &str) -> Option<String> {
        let text = match name {
            "a.wgsl" => "#include \"b.wgsl\"\nfn a() -> u32 { return b() + 1u; }\n",
            "b.wgsl" => "// b\nfn b() -> u32 { return 1u; }",
            "bad.wgsl" => "// one\n// two\nfn bad() -> u32 { return missing; }\n",
            "loop.wgsl" => "#include \"pool.wgsl\"\n",
            "pool.wgsl" => "// x\n#include \"loop.wgsl\"\n",
            _ => return None,
        };
        Some(text.to_owned())
    }

    const MAIN: &str = "@compute @workgroup_size(1) fn main() { _ = a() + b(); }";

    #[test]
    fn files_are_taken_in_once_and_lines_remember_their_place() {
        let mut p = program(&format!("// top\n#include \"a.wgsl\" // both ways\n  #include \"b.wgsl\"\n{MAIN}"));
        expand(&mut p, &files).unwrap();
        compile(&p, &target()).unwrap();
        assert_eq!(p.map.included(), ["a.wgsl", "b.wgsl"]);
        let origins: Vec<_> = (1..=8).map(|line| p.map.origin(line)).collect();
        let expected =
            [("k", 1), ("b.wgsl", 1), ("b.wgsl", 2), ("a.wgsl", 1), ("a.wgsl", 2), ("k", 2), ("k", 3), ("k", 4)];
        assert_eq!(origins, expected.map(Some));
    }

    #[test]
    fn faults_are_shown_where_they_are() {
        let cases = [
            (format!("#include \"bad.wgsl\"\n{MAIN}"), "bad.wgsl:3:26:"),
            ("#include \"b.wgsl\"\n@compute @workgroup_size(1) fn main() { nope(); }".to_owned(), "k:2:41:"),
        ];
        for (source, start) in cases {
            let mut p = program(&source);
            expand(&mut p, &files).unwrap();
            let error = compile(&p, &target()).unwrap_err();
            assert!(error.to_string().starts_with(start), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_included_says_why() {
        let cases = [
            ("// 1\n#include \"missing.wgsl\"", "k:2:1: nothing is known as \"missing.wgsl\"; built in are ashfall/"),
            ("#include <a.wgsl>", "k:1:1: an include is written"),
            ("#include \"a.wgsl\" b", "k:1:1: an include is written"),
            (
                "#include \"loop.wgsl\"",
                "pool.wgsl:2:1: the include goes in a circle: loop.wgsl -> pool.wgsl -> loop.wgsl",
            ),
            ("#include \"k\"", "k:1:1: the include goes in a circle: k -> k"),
        ];
        for (source, start) in cases {
            let error = expand(&mut program(source), &files).unwrap_err();
            assert!(error.to_string().starts_with(start), "{error}");
        }
    }

    #[test]
    fn a_source_without_includes_is_left_alone() {
        let mut p = program("// #include \"x\"\r\nfn f() {}");
        let before = p.clone();
        expand(&mut p, &files).unwrap();
        assert_eq!(p, before);
    }

    #[test]
    fn every_built_in_include_can_be_used() {
        assert!(BUILT_IN.len() >= 2);
        for (name, text) in BUILT_IN {
            // Some ask in their comments for buffers.
            let asked = text.lines().filter_map(|line| line.strip_prefix("//     var<"));
            let bind = |(i, rest): (usize, &str)| format!("@group(0) @binding({i}) var<{rest};\n");
            let buffers: String = asked.enumerate().map(bind).collect();
            let mut p = program(&format!("#include \"{name}\"\n{buffers}@compute @workgroup_size(1) fn main() {{}}"));
            expand(&mut p, &|_| None).unwrap();
            compile(&p, &target()).unwrap();
        }
    }
}
