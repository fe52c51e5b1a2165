//! Assets whose files change while scripts run, and neighbours that a host puts in place of the crate's own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use ashfall::asset::{Asset, AssetKind, Assets, FolderAssets, Root};
use ashfall::inspect::{GpuFrame, GpuFrameRow};
use ashfall::mesh::Mesh;
use ashfall::shader::ProgramSource;
use ashfall::texture::{Format, TextureDesc, TextureRole};
use ashfall::{BufferDesc, BufferId, Gpu, Meshes, Modules, ScriptHost, ScriptOptions, Services, StoredMeshes};
use common::{open, reflected};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than any change needs to be seen, on any machine.
const LIMIT: Duration = Duration::from_secs(60);

fn put(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

/// Steps frames until the script has set the global `step` to a number.
fn until(host: &ScriptHost, step: &str) {
    let start = Instant::now();
    loop {
        let errors = host.step();
        assert!(errors.is_empty(), "{}", errors[0]);
        host.end_frame().unwrap();
        host.gpu().borrow_mut().wait_for_progress(Duration::from_millis(5)).unwrap();
        let log: String = host.lua().named_registry_value("log").unwrap_or_default();
        if log.ends_with(step) {
            return;
        }
        assert!(start.elapsed() < LIMIT, "waiting for \"{step}\": {log}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Tells what a buffer holds and where the program stands whenever one of them changes.
const WATCH: &str = r#"
local handle = asset.resolve("grow")
compute.createBuffer("n", { size = 4 })
local last
while true do
	compute.writeBufferU32("n", { 0 })
	handle:dispatch({ buffers = { "n" }, workgroups = { 1 } })
	local key = compute.readBuffer("n")
	while not compute.isReadbackReady(key) do
		task.wait()
	end
	local now = compute.programState("grow") .. " " .. compute.getReadbackResultU32(key)[1]
	if now ~= last then
		log(now)
		last = now
	end
	task.wait()
end
"#;

fn grow(by: &str) -> String {
    format!("#include \"by.wgsl\"\n@compute @workgroup_size(1) fn main() {{ n[0] += {by}; }}")
}

#[test]
fn a_name_of_several_assets_tells_which() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a/same.obj", "b/same.obj", "c/other.obj"] {
        std::fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
        put(folder.path(), name, "");
    }
    let gpu = open();
    let host = gpu.host_with(ScriptOptions {
        assets: Box::new(FolderAssets::new(vec![Root { name: "user".into(), folder: folder.path().to_owned() }])),
        ..ScriptOptions::default()
    });
    let told: String = host.lua().load("return select(2, asset.resolve('same'))").eval().unwrap();
    assert_eq!(told, "several assets are known as \"same\": @user::a.same, @user::b.same");
}

#[test]
fn changed_files_become_new_programs_and_faulty_ones_leave_the_last() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(at, "grow.wgsl", &grow("BY"));
    put(at, "by.wgsl", "const BY = 2u;");
    put(at, "grow.bindings.yaml", "bindings: [{ name: n, kind: buffer, element: u32 }]");
    let gpu = open();
    let host = gpu.host_with(ScriptOptions {
        assets: Box::new(FolderAssets::new(vec![Root { name: "user".into(), folder: at.to_owned() }])),
        ..ScriptOptions::default()
    });
    // The globals are read-only by now; a script sees what its own environment has.
    let log = host.lua().create_function(|lua, text: String| lua.set_named_registry_value("log", text)).unwrap();
    let environment = host.lua().create_table().unwrap();
    let meta = host.lua().create_table().unwrap();
    meta.set("__index", host.lua().globals()).unwrap();
    environment.set_metatable(Some(meta)).unwrap();
    environment.set("log", log).unwrap();
    let body = host.lua().load(WATCH).set_name("=watch").set_environment(environment).into_function().unwrap();
    host.spawn_function(body).unwrap();

    until(&host, "ready 2");
    put(at, "by.wgsl", "const BY = 30u;");
    until(&host, "ready 30");
    put(at, "grow.wgsl", &grow("nonsense"));
    until(&host, "failed 30");
    put(at, "grow.wgsl", &grow("(BY + params.more)"));
    // Without the parameter it fails as before; with it, it runs.
    put(
        at,
        "grow.bindings.yaml",
        "bindings: [{ name: n, kind: buffer, element: u32 }]\nparams: [{ name: more, type: u32, default: 4 }]",
    );
    until(&host, "ready 34");
    put(at, "grow.bindings.yaml", "bindings: [");
    until(&host, "failed 34");
    std::fs::remove_file(at.join("grow.wgsl")).unwrap();
    put(
        at,
        "grow.bindings.yaml",
        "bindings: [{ name: n, kind: buffer, element: u32 }]\nparams: [{ name: more, type: u32, default: 5 }]",
    );
    put(at, "grow.wgsl", &grow("(BY + params.more)"));
    until(&host, "ready 35");
}

#[test]
fn what_was_said_before_an_asset_was_there_is_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let gpu = open();
    let host = gpu.host_with(ScriptOptions {
        assets: Box::new(FolderAssets::new(vec![Root { name: "user".into(), folder: at.to_owned() }])),
        ..ScriptOptions::default()
    });
    let early = r#"
        compute.createBuffer("n", { size = 4 })
        compute.setParam("grow", "more", 7)
        compute.setParam("@user::grow", "more", 8)
        compute.dispatch("grow", { buffers = { "n" }, workgroups = { 1 } })
        assert(compute.failing()[1].shader == "grow")
    "#;
    gpu.pass_on(&host, early);
    put(at, "grow.wgsl", "@compute @workgroup_size(1) fn main() { n[0] += params.more; }");
    let yaml = "bindings: [{ name: n, kind: buffer, element: u32 }]\nparams: [{ name: more, type: u32 }]";
    put(at, "grow.bindings.yaml", yaml);
    // Until the folders are looked at again.
    std::thread::sleep(Duration::from_millis(500));
    let late = r#"
        local handle = asset.resolve("grow")
        compute.compileByName("grow")
        while compute.programState("grow") == "pending" do task.wait() end
        local rows = handle:status()
        assert(#rows == 1 and rows[1].target == "n" and rows[1].failures == 1, rows[1] and rows[1].target)
        compute.dispatch("grow", { buffers = { "n" }, workgroups = { 1 } })
        assert(#compute.failing() == 0)
        assert(#handle:status() == 1)
        local key = compute.readBuffer("n")
        while not compute.isReadbackReady(key) do task.wait() end
        -- Of two names the one that the asset was asked for by is adopted first.
        assert(compute.getReadbackResultU32(key)[1] == 7)
    "#;
    gpu.pass_on(&host, late);
}

/// One shader and one mesh that lie in no file.
struct Fixed;

impl Fixed {
    fn asset(kind: AssetKind) -> Rc<Asset> {
        let name = kind.name().to_owned();
        let (guid, identity, path) = (format!("guid of {name}"), format!("@engine::{name}"), "memory".to_owned());
        Rc::new(Asset { guid, identity, name, kind, path })
    }
}

impl Assets for Fixed {
    fn list(&mut self) -> Vec<Rc<Asset>> {
        AssetKind::ALL.iter().map(|k| Self::asset(*k)).collect()
    }
    fn resolve(&mut self, reference: &str) -> Option<Rc<Asset>> {
        self.list().into_iter().find(|a| [&*a.guid, &*a.identity, &*a.name].contains(&reference))
    }
    fn shader(&mut self, guid: &str) -> Result<ProgramSource, String> {
        let source = "#include \"it\"\n@group(0) @binding(0) var<storage, read_write> v: array<f32>;\n\
                      @compute @workgroup_size(1) fn main() { v[0] = it(); }";
        Ok(reflected(guid, source))
    }
    fn mesh(&mut self, _: &str) -> Result<Mesh, String> {
        Err("meshes are elsewhere".to_owned())
    }
    fn include(&mut self, _: &str, name: &str) -> Option<String> {
        (name == "it").then(|| "fn it() -> f32 { return 42.0; }".to_owned())
    }
    fn changed(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// Meshes whose vertices an engine keeps on the device.
#[derive(Default)]
struct Resident(StoredMeshes, Option<BufferId>);

impl Meshes for Resident {
    fn put(&mut self, guid: &str, mesh: Mesh) {
        self.0.put(guid, mesh);
    }
    fn get(&self, guid: &str) -> Option<Arc<Mesh>> {
        self.0.get(guid)
    }
    fn unload(&mut self, guid: &str) -> bool {
        self.0.unload(guid)
    }
    fn vertex_buffer(&mut self, gpu: &mut Gpu, guid: &str) -> ashfall::Result<Option<BufferId>> {
        if guid != "engine's" {
            return self.0.vertex_buffer(gpu, guid);
        }
        if self.1.is_none() {
            self.1 = Some(gpu.create_vertex_buffer(guid, 96)?);
        }
        Ok(self.1)
    }
}

struct Told;

impl Services for Told {
    fn gpu_memory(&self, _: &Gpu) -> Vec<(&'static str, u64)> {
        vec![("compute", 1), ("shadows", 2)]
    }
    fn gpu_frame(&self, _: &mut Gpu) -> Option<Rc<GpuFrame>> {
        let rows = vec![GpuFrameRow { label: "all".into(), dispatches: 3, ms: 1.5, shared_ms: 0.5 }];
        Some(Rc::new(GpuFrame { frame: 9, ms: 2.0, rows }))
    }
    fn create_buffer(&self, gpu: &mut Gpu, owner: &str, name: &str, desc: BufferDesc) -> ashfall::Result<String> {
        gpu.create_owned_buffer(&format!("engine-{owner}"), name, desc)
    }
}

struct Written;

impl Modules for Written {
    fn source(&self, path: &str) -> Option<Vec<u8>> {
        (path == "@engine/twice").then(|| b"task.wait() return function(x) return 2 * x end".to_vec())
    }
}

#[test]
fn every_neighbour_can_be_the_hosts_own() {
    let gpu = open();
    let host = gpu.host_with(ScriptOptions {
        files: None,
        assets: Box::new(Fixed),
        meshes: Box::<Resident>::default(),
        services: Box::new(Told),
        modules: Box::new(Written),
    });
    let script = r#"
        local function same(a, b) if a ~= b then error(`{a} is not {b}`, 2) end end
        same(require("@engine/twice")(21), 42)
        same(require("@engine/twice"), require("@engine/twice"))
        same(pcall(require, "./file"), false)
        local handle = asset.load("computeShader")
        same(handle.guid, "guid of computeShader")
        while compute.programState(handle) == "pending" do task.wait() end
        same(compute.programState(handle), "ready")
        local own = handle:createBuffer("x", { size = 4 })
        same(string.match(own.key, "^engine%-guid of computeShader/x") ~= nil, true)
        handle:dispatch({ buffers = { own }, workgroups = { 1 } })
        local key = compute.readBuffer(own)
        handle:dispatchOnVertices({ model = "engine's", workgroups = { 1 } })
        same(handle:status()[1].target, "engine's")
        same(meshcpu.vertexBuffer("engine's").size, 96)
        same(select(2, meshcpu.load("mesh")), "meshes are elsewhere")
        while not compute.isReadbackReady(key) do task.wait() end
        same(compute.getReadbackResult(key)[1], 42)
        same(renderer.gpuMemory().shadows, 2)
        same(profiler.gpuFrame().rows[1].label, "all")
        same(profiler.gpuFrame().rows[1].sharedMs, 0.5)
        same(fs, nil)
    "#;
    gpu.pass_on(&host, script);
}

/// Modules of a host: path and source.
struct Listed(&'static [(&'static str, &'static [u8])]);

impl Modules for Listed {
    fn source(&self, path: &str) -> Option<Vec<u8>> {
        self.0.iter().find(|(p, _)| *p == path).map(|(_, source)| source.to_vec())
    }
}

#[test]
fn a_module_is_run_once_whoever_asks_and_whenever() {
    let gpu = open();
    let files = tempfile::tempdir().unwrap();
    std::fs::create_dir(files.path().join("sub")).unwrap();
    for (name, text) in [
        ("one.luau", "return { of = 'a file' }"),
        ("sub/near.luau", "return (select(2, pcall(require, './far')))"),
        ("sub/far.luau", "return 'far'"),
    ] {
        std::fs::write(files.path().join(name), text).unwrap();
    }
    let modules = Listed(&[
        ("slow", b"for i = 1, 3 do task.wait() end return {}"),
        ("self", b"return require('self')"),
        ("ping", b"task.wait() return require('pong')"),
        ("pong", b"task.wait() return require('ping')"),
        (
            "stuck",
            b"if not meshcpu.info('x') then meshcpu.put('x', { positions = {} }) coroutine.yield() end return 'again'",
        ),
        ("late", b"task.wait() return 1"),
        ("bytecode", b"\x06\x03\x00\x00"),
        ("one.luau", b"return { of = 'the host' }"),
    ]);
    let options =
        ScriptOptions { files: Some(files.path().into()), modules: Box::new(modules), ..ScriptOptions::default() };
    let host = gpu.host_with(options);
    let script = r#"
        local function same(a, b) if a ~= b then error(`{a} is not {b}`, 2) end end
        local function fails(with, ...)
            local ok, problem = pcall(...)
            if ok or not string.find(problem, with, 1, true) then error(`{problem} is not {with}`, 2) end
        end
        -- Another task that asks meanwhile gets the same value.
        local other
        task.spawn(function() other = require("slow") end)
        same(require("slow"), other)
        same(type(other), "table")
        -- A circle within one task, and one over two tasks.
        fails("is being required by a module that it requires", require, "self")
        local raised = 0
        for _, path in { "ping", "pong" } do
            task.spawn(function()
                local ok, problem = pcall(require, path)
                if not ok and string.find(problem, "that it requires", 1, true) then raised += 1 end
            end)
        end
        for i = 1, 6 do task.wait() end
        same(raised, 2)
        -- The loader is cancelled: the next one to ask loads it.
        local loader = task.spawn(require, "stuck")
        local got
        task.spawn(function() got = require("stuck") end)
        task.cancel(loader)
        for i = 1, 3 do task.wait() end
        same(got, "again")
        -- Where the waiting cannot be done, that is said.
        task.spawn(require, "late")
        local meta = setmetatable({}, { __index = function() return require("late") end })
        fails("this code cannot wait", function() return meta.x end)
        fails("require: bytecode: got compiled Luau", require, "bytecode")
        -- The script that asks is found behind pcall and task.spawn; a file never passes for a module of the host.
        same(select(2, pcall(require, "./one")).of, "a file")
        same(require("one.luau").of, "the host")
        same(require("./sub/near"), "far")
        task.spawn(require, "./one")
        same(require("./one"), require("./sub/../one"))
    "#;
    gpu.pass_on(&host, script);
    assert!(host.spawn("bytecode", b"\x06\x03\x00").unwrap_err().to_string().contains("bytecode: got compiled Luau"));
}

#[test]
fn scene_depth_is_the_hosts_image() {
    let gpu = open();
    let depth = {
        let mut gpu = gpu.get();
        let desc = TextureDesc {
            role: TextureRole::Target,
            width: 3,
            height: 2,
            depth: 1,
            format: Format::R32f,
            storage: true,
        };
        let wrong = gpu.create_texture("color", TextureDesc { format: Format::Rgba8, ..desc }).unwrap();
        assert_eq!(gpu.set_scene_depth(Some(wrong)).unwrap_err().id(), "argument");
        let id = gpu.create_texture("depth", desc).unwrap();
        let texels = [0.0f32, 0.25, 0.5, 0.75, 1.0, 0.125];
        gpu.write_texture_with(id, 24, |to| {
            to.copy_from_slice(bytemuck::cast_slice(&texels));
            Ok::<_, ashfall::Error>(())
        })
        .unwrap();
        gpu.set_scene_depth(Some(id)).unwrap();
        id
    };
    let script = r#"
        compute.compile("near", {
            source = "@compute @workgroup_size(6) fn main(@builtin(local_invocation_index) i: u32) { out[i] = textureLoad(depth, vec2<u32>(i % 3u, i / 3u), 0).r; }",
            bindings = { { name = "depth", kind = "texture2d" }, { name = "out", kind = "buffer" } },
        })
        while compute.programState("near") == "pending" do task.wait() end
        compute.createBuffer("out", { size = 24 })
        compute.dispatchEx("near", { resources = { { kind = "scene_depth" }, { kind = "buffer", name = "out" } }, workgroups = { 1 } })
        assert(#compute.failing() == 0, compute.failing()[1] and compute.failing()[1].lastError)
        local key = compute.readBuffer("out")
        repeat task.wait() until compute.isReadbackReady(key)
        assert(table.concat(compute.getReadbackResult(key), " ") == "0 0.25 0.5 0.75 1 0.125")
    "#;
    gpu.pass(script);
    gpu.get().destroy_texture(depth).unwrap();
    let without = r#"
        compute.createBuffer("out", { size = 24 })
        compute.dispatchEx("near", { resources = { { kind = "scene_depth" }, { kind = "buffer", name = "out" } }, workgroups = { 1 } })
        local row = compute.failing()[1]
        assert(string.find(row.lastError, "which this host supplies none of"), row.lastError)
    "#;
    gpu.pass(without);
}
