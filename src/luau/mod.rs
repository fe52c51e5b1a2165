//! The script surface: the only user of `mlua`.
//!
//! [`ScriptHost`] puts `compute`, `Buffer` and `task` into a sandboxed Luau state and runs scripts as tasks, one
//! [`ScriptHost::step`] a frame. A script's mistake raises a string that starts with the script's file and line and
//! names the function, the field, the value given and what is accepted.

mod args;
mod asset;
mod buffer;
mod compute;
mod files;
mod hierarchy;
mod host;
mod inspect;
mod mesh;
mod module;
mod program;
mod register;
pub mod task;
mod texture;

pub use host::{DeviceServices, Meshes, Modules, NoModules, ScriptOptions, Services, StoredMeshes};

use crate::asset::Assets;
use crate::error::Result;
use crate::gpu::{FrameStats, Gpu};
use mlua::Lua;
use mlua::chunk::Compiler;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;
use task::{Scheduler, TaskError};

/// Type definitions of the script surface, for analyzers and editors.
pub const TYPES: &str = include_str!("types.d.luau");

/// The script functions in Rust: namespace, name, number of arguments. Methods of handles are under the handle's name,
/// with the handle as their first argument.
pub fn functions() -> impl Iterator<Item = (&'static str, &'static str, usize)> {
    register::NAMESPACES
        .iter()
        .chain(register::METHODS)
        .flat_map(|(path, list)| list.iter().map(|e| (*path, e.name, e.arity)))
        .chain([("compute", hierarchy::SLICED.name, hierarchy::SLICED.arity)])
}

/// What every script function can reach.
pub(crate) struct Host {
    pub gpu: Rc<RefCell<Gpu>>,
    pub floats: RefCell<buffer::FloatBuffers>,
    pub assets: RefCell<Box<dyn Assets>>,
    pub meshes: RefCell<Box<dyn Meshes>>,
    pub services: Box<dyn Services>,
    pub modules: Box<dyn Modules>,
    pub builds: hierarchy::Builds,
}

/// A Luau state with the script surface on one device.
pub struct ScriptHost {
    lua: Lua,
    gpu: Rc<RefCell<Gpu>>,
    host: Rc<Host>,
    scheduler: Rc<Scheduler>,
    start: Instant,
}

impl std::fmt::Debug for ScriptHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptHost").field("gpu", &self.gpu).field("scheduler", &self.scheduler).finish_non_exhaustive()
    }
}

impl ScriptHost {
    /// Builds a state. Its globals are read-only; a script's own globals live in a table of its own.
    ///
    /// # Errors
    /// Only when Luau itself cannot be set up.
    pub fn new(gpu: Rc<RefCell<Gpu>>, options: ScriptOptions) -> mlua::Result<Self> {
        let lua = Lua::new();
        // Level 2 inlines script functions, and an inlined one is missing from its traceback.
        lua.set_compiler(Compiler::new().set_optimization_level(1).set_debug_level(1));
        let ScriptOptions { files, assets, meshes, services, modules } = options;
        let host = Rc::new(Host {
            gpu: Rc::clone(&gpu),
            floats: RefCell::default(),
            assets: RefCell::new(assets),
            meshes: RefCell::new(meshes),
            services,
            modules,
            builds: hierarchy::Builds::default(),
        });
        let scheduler = Scheduler::install(&lua)?;
        register::install(&lua, &host)?;
        module::install(&lua, &host, files.clone())?;
        if let Some(folder) = files {
            files::install(&lua, folder)?;
        }
        lua.sandbox(true)?;
        Ok(Self { lua, gpu, host, scheduler, start: Instant::now() })
    }

    /// The Luau state.
    #[must_use]
    pub fn lua(&self) -> &Lua {
        &self.lua
    }

    /// The device.
    #[must_use]
    pub fn gpu(&self) -> &Rc<RefCell<Gpu>> {
        &self.gpu
    }

    /// Makes a script's body a task; it starts with the next [`ScriptHost::step`]. `name` is what error messages
    /// and tracebacks call it.
    ///
    /// # Errors
    /// A syntax error, with file and line. Compiled Luau is refused: only text can be trusted to stay in the sandbox.
    pub fn spawn(&self, name: &str, source: &[u8]) -> mlua::Result<()> {
        self.spawn_function(module::text_only(&self.lua, name, source)?)
    }

    /// Makes a function a task, as [`ScriptHost::spawn`] does a script's body.
    ///
    /// # Errors
    /// When Luau is out of memory.
    pub fn spawn_function(&self, function: mlua::Function) -> mlua::Result<()> {
        self.scheduler.spawn(&self.lua, function, ())?;
        Ok(())
    }

    /// Runs every task that is due; before that, shader assets in use whose files have changed are compiled again.
    /// Returns the errors of the tasks that died of one.
    pub fn step(&self) -> Vec<TaskError> {
        self.host.builds.tidy(&mut self.gpu.borrow_mut());
        self.host.reload_assets();
        self.scheduler.step(&self.lua, self.now())
    }

    /// Ends the frame on the device.
    ///
    /// # Errors
    /// As [`Gpu::end_frame`].
    pub fn end_frame(&self) -> Result<FrameStats> {
        self.gpu.borrow_mut().end_frame()
    }

    /// Whether no task is left to run.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.scheduler.is_idle()
    }

    /// Seconds until a task is due; 0 when one is, `None` when no task is left.
    #[must_use]
    pub fn until_due(&self) -> Option<f64> {
        self.scheduler.next_due().map(|due| (due - self.now()).max(0.0))
    }

    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }
}

impl Drop for ScriptHost {
    fn drop(&mut self) {
        // Somebody who holds the device while dropping this keeps the builds, until the device goes.
        if let Ok(mut gpu) = self.gpu.try_borrow_mut() {
            self.host.builds.clear(&mut gpu);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Functions of the definitions: path and name, number of arguments.
    fn defined() -> BTreeMap<String, usize> {
        let mut found = BTreeMap::new();
        let mut path: Vec<&str> = Vec::new();
        for line in TYPES.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("declare ").and_then(|l| l.strip_suffix(": {")) {
                path = vec![name];
            } else if let Some(name) = line.strip_prefix("export type ").and_then(|l| l.strip_suffix(" = {")) {
                // Among the types only handles have functions.
                path = if name.ends_with("Handle") { vec![name] } else { Vec::new() };
            } else if line.contains("read ") && !line.contains("->") {
                // A field of a handle.
            } else if let Some(name) = line.strip_suffix(": {").filter(|_| !path.is_empty()) {
                path.push(name);
            } else if line.starts_with('}') {
                path.pop();
            } else if let (Some((name, rest)), false) = (line.split_once(": "), path.is_empty()) {
                let list = rest.split_once(") ->").map(|(list, _)| list.trim_start_matches(|c| c != '('));
                let list = list.and_then(|l| l.strip_prefix('(')).unwrap_or_default();
                // Commas between arguments, not those inside a type.
                let (mut depth, mut count) = (0i32, usize::from(!list.is_empty()));
                for c in list.chars() {
                    match c {
                        '(' | '{' | '<' => depth += 1,
                        ')' | '}' | '>' => depth -= 1,
                        ',' if depth == 0 => count += 1,
                        _ => {}
                    }
                }
                found.insert(format!("{}.{name}", path.join(".")), count);
            }
        }
        found
    }

    #[test]
    fn definitions_and_functions_agree() {
        let defined = defined();
        let registered: BTreeMap<String, usize> =
            functions().map(|(path, name, arity)| (format!("{path}.{name}"), arity)).collect();
        let of_luau = |k: &&String| k.starts_with("task.") || k.starts_with("fs.");
        for (name, arity) in &registered {
            assert_eq!(defined.get(name), Some(arity), "{name}");
        }
        let missing: Vec<_> = defined.keys().filter(|k| !of_luau(k) && !registered.contains_key(*k)).collect();
        assert!(missing.is_empty(), "defined and not there: {missing:?}");
        assert_eq!(registered.len(), functions().count(), "a function is registered twice");
        assert_eq!(defined.keys().filter(of_luau).count(), 6);
    }
}
