//! A plan as text: levels, commands, and for each barrier the hazard that asked for it.

use super::Plan;
use crate::arena::Arena;
use crate::command::{Uses, View};
use std::fmt::Write as _;

/// Names for the text form: resources and programs by slot.
pub trait Names {
    /// A resource's name.
    fn resource(&self, index: u32) -> String;
    /// A program's name.
    fn program(&self, index: u32) -> String;
}

/// One access of one command, as the text form needs it.
struct Access {
    command: usize,
    level: u32,
    resource: u32,
    uses: Uses,
    start: u64,
    end: u64,
}

impl Plan {
    /// The plan as text. Slow (quadratic in the accesses to one resource): for tests, dumps and bug reports.
    ///
    /// Under each barrier stands one line a command that needs it: the command, the resource, the earlier command
    /// one level before that it must follow, and why. A command that only follows earlier frames says so.
    #[must_use]
    pub fn text(&self, arena: &Arena, names: &dyn Names) -> String {
        let views: Vec<View<'_>> = arena.iter().map(|(_, view)| view).collect();
        let accesses = collect(&views, &self.levels);
        let mut out = String::new();
        for (command, view) in views.iter().enumerate() {
            if let View::Prepare(_) = view {
                let _ = writeln!(out, "{}", describe(command, view, names));
            }
        }
        for (level, (cut, _)) in self.iter().enumerate() {
            if let Some(cut) = cut {
                let _ = writeln!(out, "barrier: {:?} -> {:?}", cut.from, cut.to);
                for command in self.commands_of(level) {
                    let _ = writeln!(out, "  because {}", reason(command, level as u32, &views, &accesses, names));
                }
            }
            let _ = writeln!(out, "level {level}");
            for command in self.commands_of(level) {
                let _ = writeln!(out, "  {}", describe(command, &views[command], names));
            }
        }
        if self.host_reads {
            out.push_str("barrier: copy write -> host read\n");
        }
        out
    }

    fn commands_of(&self, level: usize) -> impl Iterator<Item = usize> {
        let wanted = level as u32;
        self.levels.iter().enumerate().filter_map(move |(command, level)| (*level == wanted).then_some(command))
    }
}

fn collect(views: &[View<'_>], levels: &[u32]) -> Vec<Access> {
    let mut all = Vec::new();
    for (command, (view, level)) in views.iter().zip(levels).enumerate() {
        view.accesses(|resource, uses, range| {
            all.push(Access { command, level: *level, resource, uses, start: range.start, end: range.end });
        });
    }
    all
}

/// Which of the three hazards stands between an earlier and a later use, if any.
#[must_use]
pub fn hazard(earlier: Uses, later: Uses) -> Option<&'static str> {
    let (before, after) = (!earlier.writes().is_none(), !later.writes().is_none());
    match (before, after) {
        (true, _) if !later.reads().is_none() => Some("read after write"),
        (true, true) => Some("write after write"),
        (false, true) if !earlier.is_none() => Some("write after read"),
        _ => None,
    }
}

fn reason(command: usize, level: u32, views: &[View<'_>], accesses: &[Access], names: &dyn Names) -> String {
    let op = views[command].op().name();
    for later in accesses.iter().filter(|a| a.command == command) {
        for earlier in accesses.iter().filter(|a| a.command < command && a.level + 1 == level) {
            let same = earlier.resource == later.resource && earlier.start < later.end && later.start < earlier.end;
            if let (true, Some(kind)) = (same, hazard(earlier.uses, later.uses)) {
                return format!(
                    "#{command} {op} follows #{} {} on {}: {kind}",
                    earlier.command,
                    views[earlier.command].op().name(),
                    names.resource(later.resource)
                );
            }
        }
    }
    if level == 1 {
        format!("#{command} {op} follows an earlier frame")
    } else {
        // A range in a gap of a hull, or bytes that a partial write left behind: ordered to be safe.
        format!("#{command} {op} follows older accesses to the same resource")
    }
}

fn describe(command: usize, view: &View<'_>, names: &dyn Names) -> String {
    match view {
        View::Dispatch(c, bound, params) => {
            let mut text = format!(
                "#{command} dispatch {} [{}, {}, {}]",
                names.program(c.program),
                c.groups[0],
                c.groups[1],
                c.groups[2]
            );
            // Samplers are no accesses, and their indices are no resources'.
            for b in bound.iter().filter(|b| !b.uses().is_none()) {
                let _ = write!(text, " {}({:?})", names.resource(b.index()), b.uses());
            }
            if !params.is_empty() {
                let _ = write!(text, " params {} B", params.len());
            }
            text
        }
        View::Upload(c) => {
            format!("#{command} upload {}[{}..{}]", names.resource(c.buffer), c.offset, c.offset + c.size)
        }
        View::Fill(c) => format!(
            "#{command} fill {}[{}..{}] with {:#x}",
            names.resource(c.buffer),
            c.offset,
            c.offset + c.size,
            c.value
        ),
        View::Read(c) => format!("#{command} read {}[{}..{}]", names.resource(c.buffer), c.offset, c.offset + c.size),
        View::Prepare(c) => format!("#{command} prepare {}", names.resource(c.texture)),
        View::Clear(c) => format!("#{command} clear {}", names.resource(c.texture)),
        View::UploadTexture(c) => format!("#{command} upload {}", names.resource(c.texture)),
        View::ReadTexture(c) => format!("#{command} read {}", names.resource(c.texture)),
        View::CopyToTexture(c) => {
            format!("#{command} copy {} to {}", names.resource(c.buffer), names.resource(c.texture))
        }
    }
}
