//! Every script function with arguments of every kind: nothing panics, nothing breaks, and every refusal is a string
//! that names the function.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::open;

/// Calls random functions with random arguments; `CALLS` and `SEED` are set in front.
const CALLER: &str = r#"
local state = SEED
local function random(n) -- 1 to n
	state = (state * 16807) % 2147483647
	return state % n + 1
end

local namespaces = {
	compute = compute, ["compute.program"] = compute.program, Buffer = Buffer, renderer = renderer, substrate = substrate,
	asset = asset, meshcpu = meshcpu, profiler = profiler,
}
local functions = {}
for path, namespace in namespaces do
	for name, f in namespace do
		if type(f) == "function" then
			table.insert(functions, { path = path .. "." .. name, call = f })
		end
	end
end
-- The methods of handles; a handle or anything else is the first argument.
local shader = asset.resolve("@builtin::shaders.compute_double")
for _, name in { "load", "dispatch", "dispatchEx", "dispatchOnVertices", "setParam", "createBuffer", "status", "destroy" } do
	table.insert(functions, { path = "ShaderHandle:" .. name, call = shader[name] })
end
table.sort(functions, function(a, b) return a.path < b.path end)

local RAW = "@group(0) @binding(0) var<storage, read_write> v: array<f32>; @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3<u32>) { if id.x < arrayLength(&v) { v[id.x] += 1.0; } }"
local DRAW = "@compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3<u32>) { textureStore(image, id.xy, vec4<f32>(params.s)); }"
local names = { "a", "b", "c", "", "no such", "linear_clamp", "\0\255", string.rep("long", 300) }
local cyclic = {}
cyclic.self = cyclic
cyclic.buffers = { cyclic }
local angry = setmetatable({}, { __index = function() error("angry") end, __len = function() error("angry") end })
local sneaky = setmetatable({}, { __index = function(_, key)
	compute.createBuffer("sneaky", { size = 16 }) -- calls back in the middle of a call
	return if key == "size" then 16 else nil
end })
local keys = {}
local handle
local pick

local kinds = { "buffer", "texture_2d", "texture_3d", "storage_2d", "history_prev", "history_curr", "sampler", "scene_depth", "teapot" }
local formats = { "r8", "r16f", "r32f", "rgba8", "rgba16f", "rgba32f", "rgba9" }
local numbers = { 0, 1, 2, 3, 4, 5, 7, 8, 16, 64, 255, 256, 1000, 65535, 65536, -1, -4, 0.5, 0 / 0, math.huge, -math.huge, 2 ^ 31, 2 ^ 32, 2 ^ 50, 2 ^ 53, 2 ^ 70, 1e300 }

local makers = {
	function() return names[random(#names)] end,
	function() return names[random(3)] end,
	function() return numbers[random(#numbers)] end,
	function() return nil end,
	function() return random(2) == 1 end,
	function() return {} end,
	function() return cyclic end,
	function() return angry end,
	function() return sneaky end,
	function() return print end,
	function() return coroutine.running() end,
	function() return buffer.create(4 * random(16)) end,
	function() return buffer.create(random(9)) end,
	function() return string.rep("x", random(40)) end,
	function() return keys[random(math.max(1, #keys))] end,
	function() return handle end,
	function() return formats[random(#formats)] end,
	function() return shader end,
	function() return shader.identity end,
	function() return { positions = { 0, 0, 0, 1, 0, 0, 0, 1, random(4) }, indices = if random(2) == 1 then { 0, 1, random(3) } else nil } end,
	function() return { positions = pick(), normals = pick(), uvs = pick(), indices = pick() } end,
	function() return { model = names[random(3)], buffers = { names[random(3)] }, workgroups = { random(4) } } end,
	function() return { model = pick(), buffers = pick(), workgroups = { random(4) } } end,
	function() return { 1, 2, 3, 4 } end,
	function() return { pick(), pick() } end,
	function() return table.create(random(20), random(300)) end,
	function() return { size = numbers[random(#numbers)], readback = pick() } end,
	function() return { size = 16 * random(8) } end,
	function() return { width = random(9), height = random(9), depth = random(5), format = formats[random(#formats)], storage = random(2) == 1 } end,
	function() return { width = pick(), height = pick(), depth = pick(), format = pick(), storage = pick() } end,
	function() return { filter = random(2) == 1, clamp = random(2) == 1 } end,
	function() return { stride = random(4), count = random(8) } end,
	function() return { buffers = { names[random(3)] }, workgroups = { random(4), random(4) } } end,
	function() return { buffers = pick(), workgroups = pick() } end,
	function() return { resources = { { kind = kinds[random(#kinds)], name = names[random(3)] } }, workgroups = { random(4), random(3), random(2) } } end,
	function() return { resources = { pick(), pick() }, workgroups = { pick() } } end,
	function() return { source = RAW } end,
	function() return { source = pick(), entryPoint = pick(), bindings = pick(), readOnlyBindings = pick(), params = pick() } end,
	function() return { source = DRAW, bindings = { { name = "image", kind = "storage2d", format = formats[random(#formats)] } }, params = { { name = "s", type = "f32", default = pick() } } } end,
	function() return { source = RAW, bindings = { { kind = pick(), format = pick(), readOnly = pick() } } } end,
	function() return { bindings = { { name = pick(), kind = pick(), access = pick(), element = pick(), array = pick() } }, params = { { name = pick(), type = pick(), default = pick() } }, source = RAW } end,
}
local depth = 0
function pick()
	if depth > 3 then
		return nil
	end
	depth += 1
	local value = makers[random(#makers)]()
	depth -= 1
	return value
end

local refusals = 0
for call = 1, CALLS do
	local f = functions[random(#functions)]
	local ok, first = pcall(f.call, pick(), pick(), pick(), pick(), pick())
	if ok then
		if type(first) == "string" and string.find(first, "^readback:") then
			table.insert(keys, first)
			if #keys > 50 then
				table.remove(keys, 1)
			end
		elseif type(first) == "table" and first.key then
			handle = first
		end
	else
		refusals += 1
		assert(type(first) == "string", f.path)
		assert(string.find(first, f.path .. ": ", 1, true) or string.find(first, "angry", 1, true), first)
	end
	if call % 40 == 0 then
		task.wait()
	end
end
assert(refusals > CALLS / 10 and refusals < CALLS, refusals)

-- After all that everything still works.
compute.createBuffer("after", { size = 16 })
compute.writeBuffer("after", { 1, 2, 3, 4 })
compute.registerShader("after", { source = RAW })
while compute.programState("after") == "pending" do
	task.wait()
end
assert(compute.programState("after") == "ready")
compute.dispatch("after", { buffers = { "after" }, workgroups = { 1 } })
local key = compute.readBuffer("after")
while not compute.isReadbackReady(key) do
	task.wait()
end
assert(table.concat(compute.getReadbackResult(key), " ") == "2 3 4 5")
"#;

#[test]
fn any_arguments_are_an_answer() {
    // More by hand: ASHFALL_SURFACE_CALLS=200000 ASHFALL_SURFACE_SEED=7 cargo test --test surface
    let number = |name: &str, default: u32| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let calls = number("ASHFALL_SURFACE_CALLS", 6000);
    let first = number("ASHFALL_SURFACE_SEED", 1);
    for seed in [first, first + 1] {
        let gpu = open();
        gpu.pass(&format!("local SEED, CALLS = {seed}, {calls}\n{CALLER}"));
    }
}
