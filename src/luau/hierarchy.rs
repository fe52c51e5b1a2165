//! Hierarchies over the meshes of the store: `compute.buildBvh` and the builds that go on a slice at a time.

use super::Host;
use super::args::{Payload, Refusal, Word, field, field_or, number, table, whole};
use super::asset::reference;
use super::compute::{no, yes};
use super::inspect::buffer_handle;
use super::register::{self, Answer, Entry};
use crate::bvh::{Attributes, Instance, MAX_ATTRIBUTES, Options};
use crate::error::Result as GpuResult;
use crate::gpu::{BvhId, Gpu, Hierarchy};
use hashbrown::HashSet;
use mlua::{Function, Lua, Table, UserData, Value};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub(super) const ENTRIES: &[Entry] = &[
    Entry { name: "buildBvh", arity: 2, body: build },
    Entry { name: "beginBvh", arity: 2, body: begin },
    Entry { name: "stepBvh", arity: 2, body: step },
    Entry { name: "finishBvh", arity: 1, body: finish },
    Entry { name: "cancelBvh", arity: 1, body: cancel },
    Entry { name: "bvhBuilds", arity: 0, body: builds },
];

/// The function of this module that is written in Luau, as it yields.
pub(super) const SLICED: Entry = Entry { name: "buildBvhSliced", arity: 2, body: begin };

/// What a slice may take, in milliseconds.
const BUDGET: f64 = 4.0;

/// The most threads that a build at once uses; more gain nothing, as memory is the limit.
const THREADS: usize = 8;

/// The builds that a host's scripts have begun. Those left when it goes are dropped with it.
#[derive(Debug, Default)]
pub(crate) struct Builds {
    begun: RefCell<Vec<BvhId>>,
    /// Builds whose task is gone.
    abandoned: Rc<RefCell<Vec<BvhId>>>,
}

impl Builds {
    /// Drops the builds whose task was cancelled or died. Once a frame.
    pub fn tidy(&self, gpu: &mut Gpu) {
        for id in self.abandoned.borrow_mut().drain(..) {
            gpu.cancel_bvh(id);
            self.begun.borrow_mut().retain(|known| *known != id);
        }
    }

    /// Drops every build.
    pub fn clear(&self, gpu: &mut Gpu) {
        for id in self.begun.borrow_mut().drain(..) {
            gpu.cancel_bvh(id);
        }
    }
}

/// Held by a task that waits for its build.
struct Guard(Rc<RefCell<Vec<BvhId>>>, BvhId);

impl UserData for Guard {}

impl Drop for Guard {
    fn drop(&mut self) {
        // The build may be finished: then its id names nothing any more.
        self.0.borrow_mut().push(self.1);
    }
}

const INSTANCES: &str = "an array of { guid, transform, attributes? }";
const OPTS: &str = "a table { maxLeaf?, budgetMs? }";
const ID: &str = "a build id, as beginBvh returned it";

/// Absent meshes that are told by name.
const SHOWN: usize = 8;

/// The instances of a call, or the meshes that are not there.
fn instances(host: &Host, value: &Value) -> Result<Result<Vec<Instance>, String>, Refusal> {
    let list = table(value, "instances", INSTANCES)?;
    let count = list.raw_len();
    let mut found = Vec::with_capacity(count);
    let mut absent = HashSet::new();
    let mut shown = Vec::new();
    for i in 1..=count {
        let value: Value = list.raw_get(i)?;
        let entry = table(&value, format_args!("instances[{i}]"), "a table { guid, transform, attributes? }")?;
        let guid = host.mesh_guid(&reference(&field_or(entry, "guid", 1)?, &format!("instances[{i}].guid"))?);
        let mut transform = [0.0; 16];
        let given = floats(&field_or(entry, "transform", 2)?, &format!("instances[{i}].transform"), &mut transform)?;
        if given != transform.len() {
            let path = format_args!("instances[{i}].transform");
            return Err(Refusal::new(path, format_args!("{given} numbers"), "16 numbers, a matrix by rows"));
        }
        let value = field_or(entry, "attributes", 3)?;
        let mut room = [0.0; MAX_ATTRIBUTES];
        let given = match value.is_nil() {
            true => 0,
            false => floats(&value, &format!("instances[{i}].attributes"), &mut room)?,
        };
        let Some(attributes) = room.get(..given) else {
            let path = format_args!("instances[{i}].attributes");
            return Err(Refusal::new(path, format_args!("{given} numbers"), format_args!("at most {MAX_ATTRIBUTES}")));
        };
        match host.meshes.borrow().get(&guid) {
            Some(mesh) => {
                let attributes = Attributes::from_slice(attributes);
                found.push(Instance { mesh: Arc::clone(&mesh), transform, attributes });
            }
            None => {
                if shown.len() < SHOWN && !absent.contains(&guid) {
                    shown.push(format!("\"{guid}\""));
                }
                absent.insert(guid);
            }
        }
    }
    Ok(match absent.len() - shown.len() {
        _ if absent.is_empty() => Ok(found),
        0 => Err(format!("no mesh is resident as {}", shown.join(", "))),
        more => Err(format!("no mesh is resident as {} and {more} more", shown.join(", "))),
    })
}

/// Reads as many numbers as there is room for; the answer is how many were given.
fn floats(value: &Value, path: &str, to: &mut [f32]) -> Result<usize, Refusal> {
    let payload = Payload::new(value, path, true)?;
    let bytes = payload.bytes();
    if !bytes.is_multiple_of(4) {
        return Err(Refusal::new(path, format_args!("{bytes} bytes"), "32-bit floats"));
    }
    let given = (bytes / 4) as usize;
    if let Some(to) = to.get_mut(..given) {
        payload.write(bytemuck::cast_slice_mut(to), Word::F32, path)?;
    }
    Ok(given)
}

fn options(value: &Value) -> Result<Options, Refusal> {
    if value.is_nil() {
        return Ok(Options::default());
    }
    let opts = table(value, "opts", OPTS)?;
    budget(&field(opts, "budgetMs")?, "opts.budgetMs")?;
    let leaf = field(opts, "maxLeaf")?;
    let most = u64::from(u32::MAX);
    Ok(if leaf.is_nil() {
        Options::default()
    } else {
        Options::with_max_leaf(whole(&leaf, "opts.maxLeaf", 1, most)? as u32)
    })
}

fn budget(value: &Value, path: &str) -> Result<Duration, Refusal> {
    let given = if value.is_nil() { Some(BUDGET) } else { number(value) };
    match given {
        Some(ms) if ms >= 0.0 => Ok(Duration::try_from_secs_f64(ms / 1e3).unwrap_or(Duration::MAX)),
        _ => Err(Refusal::value(path, value, "milliseconds, 0 or more")),
    }
}

fn id(value: &Value) -> Result<BvhId, Refusal> {
    match number(value) {
        // Any other number names no build.
        Some(n) => Ok(BvhId(if n >= 1.0 && n.fract() == 0.0 { n as u64 } else { 0 })),
        None => Err(Refusal::value("id", value, ID)),
    }
}

/// `nil` and the reason.
fn nothing(lua: &Lua, reason: impl std::fmt::Display) -> Answer {
    Ok((Value::Nil, no(lua, reason)?.1))
}

fn begin(lua: &Lua, host: &Host, [list, opts, ..]: [Value; 5]) -> Answer {
    let options = options(&opts)?;
    let instances = match instances(host, &list)? {
        Ok(instances) => instances,
        Err(reason) => return nothing(lua, reason),
    };
    match host.gpu.borrow_mut().begin_bvh(instances, options) {
        Ok(id) => {
            host.builds.begun.borrow_mut().push(id);
            Ok((Value::Number(id.0 as f64), Value::Nil))
        }
        Err(error) => nothing(lua, error),
    }
}

fn build(lua: &Lua, host: &Host, [list, opts, ..]: [Value; 5]) -> Answer {
    let options = options(&opts)?;
    let instances = match instances(host, &list)? {
        Ok(instances) => instances,
        Err(reason) => return nothing(lua, reason),
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(THREADS));
    let mut gpu = host.gpu.borrow_mut();
    let built = gpu.build_bvh(instances, options, threads);
    hierarchy(lua, &gpu, built)
}

fn step(lua: &Lua, host: &Host, [number, ms, ..]: [Value; 5]) -> Answer {
    let (id, budget) = (id(&number)?, budget(&ms, "budgetMs")?);
    match host.gpu.borrow_mut().step_bvh(id, budget) {
        Ok(ready) => {
            let state = if ready { "ready" } else { "pending" };
            Ok((Value::String(lua.create_string(state)?), Value::Nil))
        }
        Err(error) => nothing(lua, error),
    }
}

fn finish(lua: &Lua, host: &Host, [number, ..]: [Value; 5]) -> Answer {
    let id = id(&number)?;
    let mut gpu = host.gpu.borrow_mut();
    let built = gpu.finish_bvh(id);
    if built.is_ok() {
        host.builds.begun.borrow_mut().retain(|known| *known != id);
    }
    hierarchy(lua, &gpu, built)
}

fn cancel(_: &Lua, host: &Host, [number, ..]: [Value; 5]) -> Answer {
    let id = id(&number)?;
    host.builds.begun.borrow_mut().retain(|known| *known != id);
    yes(host.gpu.borrow_mut().cancel_bvh(id))
}

/// `{ nodes, tris, nodeCount, triCount }`, or nil and the reason.
fn hierarchy(lua: &Lua, gpu: &Gpu, built: GpuResult<Hierarchy>) -> Answer {
    let built = match built {
        Ok(built) => built,
        Err(error) => return nothing(lua, error),
    };
    let handle = |id, name: &str| {
        let (key, size) = (gpu.buffer_name(id).unwrap_or_default(), gpu.buffer_desc(id).map_or(0, |d| d.size));
        buffer_handle(lua, key, name, size)
    };
    let t = lua.create_table()?;
    t.raw_set("nodes", handle(built.nodes, "nodes")?)?;
    t.raw_set("tris", handle(built.triangles, "tris")?)?;
    t.raw_set("nodeCount", built.node_count)?;
    t.raw_set("triCount", built.triangle_count)?;
    Ok((Value::Table(t), Value::Nil))
}

fn builds(lua: &Lua, host: &Host, _: [Value; 5]) -> Answer {
    let rows = lua.create_table()?;
    for (id, stats) in host.gpu.borrow().bvh_builds() {
        let row = lua.create_table()?;
        row.raw_set("id", id.0 as f64)?;
        row.raw_set("phase", stats.phase.name())?;
        row.raw_set("triangles", stats.triangles)?;
        row.raw_set("units", stats.units as f64)?;
        row.raw_set("slices", stats.slices as f64)?;
        row.raw_set("cpuMs", stats.time.as_secs_f64() * 1e3)?;
        row.raw_set("uploadedBytes", stats.uploaded as f64)?;
        rows.raw_push(row)?;
    }
    Ok((Value::Table(rows), Value::Nil))
}

/// Makes `buildBvhSliced`: a loop over the slices that waits for a frame between two of them.
pub(super) fn sliced(lua: &Lua, host: &Rc<Host>, compute: &Table) -> mlua::Result<Function> {
    let begin = register::raw(lua, host, "compute.buildBvhSliced", begin)?;
    let abandoned = Rc::clone(&host.builds.abandoned);
    let guard = lua.create_function(move |_, id: f64| Ok(Guard(Rc::clone(&abandoned), BvhId(id as u64))))?;
    let get = |name: &str| compute.raw_get::<Function>(name);
    let wait: Function = lua.globals().get::<Table>("task")?.get("wait")?;
    let error: Function = lua.globals().get("error")?;
    let yieldable: Function = lua.globals().get::<Table>("coroutine")?.get("isyieldable")?;
    lua.load(include_str!("sliced.luau")).set_name("=[compute.buildBvhSliced]").call((
        begin,
        guard,
        get("stepBvh")?,
        get("finishBvh")?,
        get("cancelBvh")?,
        wait,
        yieldable,
        error,
    ))
}
