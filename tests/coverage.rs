//! The script reference's functions, each with the scripts that call it and the lines that check how it fails.
//!
//! A row that is missing, a script that no longer calls what its row says, and a check that was taken out of a script
//! fail here; that the scripts pass is for `tests/scripts.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::path::Path;

/// Scripts of `tests/scripts/conformance` by a letter, to keep the table readable.
const SCRIPTS: &[(char, &str)] = &[
    ('a', "assets"),
    ('b', "buffers"),
    ('d', "declarations"),
    ('f', "buffer_namespace"),
    ('h', "hierarchies"),
    ('i', "inspect"),
    ('m', "meshes"),
    ('n', "neighbours"),
    ('p', "programs"),
    ('t', "textures"),
];

struct Row {
    function: &'static str,
    /// Letters of the scripts that call it.
    scripts: &'static str,
    /// How it fails or answers no: what, the script, and the text in it that checks that.
    failures: &'static [(&'static str, char, &'static str)],
}

const fn row(
    function: &'static str,
    scripts: &'static str,
    failures: &'static [(&'static str, char, &'static str)],
) -> Row {
    Row { function, scripts, failures }
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("compute.absentReasons", "i", &[]),
    row("compute.beginBvh", "h", &[
        ("no instances", 'h', "compute.{name}: instances: got nil; expected an array of"),
        ("a matrix of another length", 'h', "compute.{name}: instances[1].transform: got 3 numbers; expected 16 numbers"),
        ("too many attributes", 'h', "compute.{name}: instances[2].attributes: got 41 numbers; expected at most 40"),
        ("a leaf of nothing", 'h', "compute.{name}: opts.maxLeaf: got 0; expected"),
        ("meshes that are not resident", 'h', r#"'no mesh is resident as "gone", "away"', name"#),
    ]),
    row("compute.buildBvh", "h", &[
        ("no instances", 'h', "compute.{name}: instances: got nil; expected an array of"),
        ("a matrix of another length", 'h', "compute.{name}: instances[1].transform: got 3 numbers; expected 16 numbers"),
        ("too many attributes", 'h', "compute.{name}: instances[2].attributes: got 41 numbers; expected at most 40"),
        ("a leaf of nothing", 'h', "compute.{name}: opts.maxLeaf: got 0; expected"),
        ("meshes that are not resident", 'h', r#"'no mesh is resident as "gone", "away"', name"#),
    ]),
    row("compute.buildBvhSliced", "h", &[
        ("no instances", 'h', "compute.{name}: instances: got nil; expected an array of"),
        ("a matrix of another length", 'h', "compute.{name}: instances[1].transform: got 3 numbers; expected 16 numbers"),
        ("too many attributes", 'h', "compute.{name}: instances[2].attributes: got 41 numbers; expected at most 40"),
        ("a leaf of nothing", 'h', "compute.{name}: opts.maxLeaf: got 0; expected"),
        ("meshes that are not resident", 'h', r#"'no mesh is resident as "gone", "away"', name"#),
        ("a task that is cancelled", 'h', "the build of a cancelled task"),
    ]),
    row("compute.bvhBuilds", "h", &[]),
    row("compute.cancelBvh", "h", &[
        ("a build that is not there", 'h', "{ compute.cancelBvh(999), compute.cancelBvh(0.5) }, { false, false }"),
    ]),
    row("compute.compile", "dpt", &[
        ("a binding kind that is none", 'p', r#"compute.compile: opts.bindings[1].kind: got "cube""#),
        ("a parameter type that is none", 'p', r#"compute.compile: opts.params[1].type: got "quaternion""#),
        ("a list that is a map", 'd', "opts.bindings: got a table with the field"),
        ("a source that does not compile", 'p', r#"string.find(reason, ":2:", 1, true)"#),
        ("an array of what has no arrays", 'd', "got 2 for a storage2d; expected none"),
        ("a default of another length", 'd', "opts.params[1].default: got 1; expected 3 numbers"),
    ]),
    row("compute.compileByName", "a", &[
        ("an asset that is not there", 'a', r#"compute.compileByName("nothing")"#),
        ("an asset of another kind", 'a', r#"check.same({ compute.compileByName("quad") }, { false, '"@user::meshes.quad" is a mesh"#),
    ]),
    row("compute.copyBufferToTexture", "t", &[
        ("more texels than bytes", 't', r#""rows", "cached", 100, 100, "rgba8""#),
        ("a format that is not taken", 't', r#"not pcall(compute.copyBufferToTexture, "rows", "cached", 1, 1, "r8")"#),
        ("a buffer that is not there", 't', r#"compute.copyBufferToTexture("no such buffer", "cached", 1, 1) == false"#),
    ]),
    row("compute.createBuffer", "bdip", &[
        ("impossible sizes", 'b', r#"refused(compute.createBuffer, "impossible", { size = size })"#),
        ("no options", 'b', r#"refused(compute.createBuffer, "impossible")"#),
        ("a name that is no string", 'b', "refused(compute.createBuffer, 5, { size = 4 })"),
    ]),
    row("compute.createSampler", "it", &[
        ("a setting of another type", 't', r#"not pcall(compute.createSampler, "x", { filter = "yes" })"#),
    ]),
    row("compute.createStorageTexture2D", "ait", &[
        ("impossible sizes and formats", 't', r#"refused(compute.createStorageTexture2D, "impossible", opts)"#),
    ]),
    row("compute.createTexture3D", "dit", &[
        ("impossible sizes and formats", 't', r#"pcall(compute.createTexture3D, "impossible", opts)"#),
    ]),
    row("compute.createTextureHistory", "it", &[
        ("impossible sizes and formats", 't', r#"refused(compute.createTextureHistory, "impossible", opts)"#),
    ]),
    row("compute.destroyBuffer", "bdi", &[
        ("a buffer that is not there", 'b', r#"compute.destroyBuffer("never there") == false"#),
        ("twice", 'b', r#"compute.destroyBuffer("b") == false"#),
    ]),
    row("compute.destroySampler", "t", &[
        ("twice", 't', r#"compute.destroySampler("soft") == false"#),
        ("one that is always there", 't', "assert(not compute.destroySampler(name))"),
    ]),
    row("compute.destroyShader", "ap", &[
        ("twice", 'p', r#"compute.destroyShader("double") == false"#),
    ]),
    row("compute.destroyShaderEx", "t", &[
        ("twice", 't', r#"compute.destroyShaderEx("draw") == false"#),
    ]),
    row("compute.destroyStorageTexture2D", "t", &[
        ("twice", 't', r#"compute.destroyStorageTexture2D("target") == false"#),
    ]),
    row("compute.destroyTexture", "t", &[
        ("twice", 't', r#"compute.destroyTexture("cached") == false"#),
    ]),
    row("compute.destroyTexture3D", "t", &[
        ("twice", 't', r#"compute.destroyTexture3D("field") == false"#),
    ]),
    row("compute.destroyTextureHistory", "t", &[
        ("twice", 't', r#"compute.destroyTextureHistory("trail") == false"#),
    ]),
    row("compute.diagnose", "ai", &[
        ("not published yet", 'i', r#"before.reason == "notPublished""#),
        ("destroyed", 'i', r#"d.reason == "destroyed""#),
        ("superseded, with the key that is current", 'i', r#"d.reason == "superseded" and d.current == b.key"#),
        ("never known", 'i', r#"compute.diagnose("plian").reason == "neverKnown""#),
    ]),
    row("compute.dispatch", "adip", &[
        ("no workgroups along an axis", 'p', "for _, groups in { { 0 }, { 1, 0 }, { 1, 1, 0 }, { 2 ^ 31 }, { 1, 2 ^ 40 } } do"),
        ("a program that is not there", 'p', r#"compute.dispatch("no such program""#),
        ("a buffer that is not there", 'd', r#"buffers[1]: got "missing"; expected the name of a live buffer"#),
        ("another number of buffers", 'd', r#"{ "one", "into", "out" }"#),
        ("a program that is pending", 'p', r#"compute.program.status("late")[1].ok == false"#),
        ("workgroups that are no numbers", 'p', "compute.dispatch: opts.workgroups[2]: got nan"),
        ("a buffer that is too small", 'd', r#"got buffer "short" of 48 bytes"#),
    ]),
    row("compute.dispatchEx", "adit", &[
        ("a resource kind that is none", 't', r#"pcall(compute.dispatchEx, "look", { resources = { { kind = "storage_3d""#),
        ("a texture that is not there", 't', r#"{ kind = "texture_3d", name = "nowhere" }"#),
        ("a resource of another kind than declared", 't', r#"{ kind = "storage_2d", name = "target" }, { kind = "sampler""#),
        ("no scene depth", 't', r#"{ kind = "scene_depth" }"#),
        ("no workgroups along an axis", 't', "workgroups[1]: got 0"),
        ("one of a list that is not there", 'd', r#"resources[1].name[2]: got "nowhere""#),
    ]),
    row("compute.dispatchOnVertices", "m", &[
        ("a mesh that is not there", 'm', r#"compute.failing()[1].lastError, 'no mesh is named "mine"'"#),
        ("no workgroups along an axis", 'm', "workgroups[1]: got 0"),
        ("a program that is not there", 'm', r#"no program is named "nope""#),
        ("a buffer that is not there", 'm', r#"no buffer is named "nope""#),
        ("another number of buffers", 'm', "got 1 resources; expected 2"),
    ]),
    row("compute.failing", "adimpt", &[]),
    row("compute.finishBvh", "h", &[
        ("a build with work left", 'h', "got a build in its gather phase; expected one that has been stepped"),
        ("a build that is not there", 'h', "select(2, compute.finishBvh(id))"),
    ]),
    row("compute.getReadbackResult", "bi", &[
        ("pending", 'b', "compute.getReadbackResult(before) == nil"),
        ("a key that was never issued, or drained", 'b', r#"for _, bad in { before, "", "never issued", "readback:", nil } do"#),
    ]),
    row("compute.getReadbackResultBytes", "bdt", &[
        ("a key that was never issued, or drained", 'b', "compute.getReadbackResultU32, compute.getReadbackResultBytes }"),
    ]),
    row("compute.getReadbackResultU32", "bd", &[
        ("a key that was never issued, or drained", 'b', "compute.getReadbackResult, compute.getReadbackResultU32,"),
    ]),
    row("compute.isReadbackReady", "bit", &[
        ("pending", 'b', "compute.isReadbackReady(before) == false"),
        ("a key that was never issued, or drained", 'b', "for _, f in { compute.isReadbackReady,"),
    ]),
    row("compute.observe", "in", &[
        ("nothing published", 'i', "first.published == false and first.generation == 0"),
        ("nothing published in a frame without a change", 'i', "A frame in which nothing came or went publishes nothing."),
    ]),
    row("compute.programState", "adipt", &[
        ("absent", 'p', r#"compute.programState("double") == "absent""#),
        ("pending, also for a recompile", 'p', r#"compute.programState("plain") == "pending""#),
        ("failed, with the reason", 'p', r#"state == "failed" and type(reason) == "string" and #reason > 0"#),
    ]),
    row("compute.readBuffer", "bfi", &[
        ("a buffer that is not there", 'b', r#"compute.readBuffer("no such buffer") == """#),
        ("a buffer without readback", 'b', r#"local closed = compute.readBuffer("closed")"#),
    ]),
    row("compute.readTexture3D", "dt", &[
        ("a volume that is not there", 't', r#"compute.readTexture3D("impossible") == """#),
    ]),
    row("compute.readbackState", "bd", &[
        ("never issued, or drained", 'b', r#"compute.readbackState(bad) == "unknown""#),
    ]),
    row("compute.registerShader", "fmp", &[
        ("a count that disagrees with the source", 'p', r#"not pcall(compute.registerShader, "wrong", { source = RAW, bindings = count })"#),
        ("a read-only entry that names no binding", 'p', "readOnlyBindings = { entry }"),
        ("no source", 'p', "compute.registerShader: opts.source: got nil"),
    ]),
    row("compute.registerShaderEx", "t", &[
        ("a kind that disagrees with the source", 't', r#"bindings = { { kind = "texture_3d" } } }))"#),
        ("a count that disagrees with the source", 't', "fn main() {}\", bindings = {} }))"),
        ("read-only, and written", 'd', "opts.bindings[1].readOnly: got 0"),
    ]),
    row("compute.resources", "aim", &[
        ("an owner of nothing", 'i', r#"#compute.resources("no such owner") == 0"#),
        ("what carries no shader", 'i', "not pcall(compute.resources, 5) and not pcall(compute.resources, {})"),
        ("an empty name", 'd', r#"compute.resources, """#),
    ]),
    row("compute.setParam", "adpt", &[
        ("a parameter that is not declared", 'p', r#"not compute.setParam("scaled", "no such", 1)"#),
        ("a shader without parameters", 'p', r#"not compute.setParam("double", "scale", 1)"#),
        ("a value that is no number", 'p', r#"not pcall(compute.setParam, "scaled", "scale", "much")"#),
        ("a component past the type's last", 'd', r#"for _, prop in { "a.y", "e.z""#),
    ]),
    row("compute.stepBvh", "h", &[
        ("a build that is not there", 'h', r#"{ compute.stepBvh(999) }, { nil, 'no hierarchy build"#),
        ("a negative budget", 'h', "compute.stepBvh: budgetMs: got -1"),
    ]),
    row("compute.textureFormatBytes", "t", &[
        ("a format that is none", 't', r#"compute.textureFormatBytes("rgba9") == 0"#),
    ]),
    row("compute.writeBuffer", "bdi", &[
        ("a buffer that is not there", 'b', r#"refused(compute.writeBuffer, "b", { 1 })"#),
        ("past the end", 'b', r#"refused(compute.writeBuffer, "a", { 1 }, 8)"#),
        ("values that are none", 'b', r#"for _, values in { { "x" }, { 1, {} }, 5, true, "abc", buffer.create(3) } do"#),
    ]),
    row("compute.writeBufferBytes", "bt", &[
        ("an array", 'b', r#"refused(compute.writeBufferBytes, "a", { 1, 2, 3, 4 })"#),
        ("past the end", 'b', r#"refused(compute.writeBufferBytes, "a", string.rep("x", 36))"#),
        ("an offset inside a word", 'b', r#"refused(compute.writeBufferBytes, "a", "1234", 30)"#),
    ]),
    row("compute.writeBufferU32", "b", &[
        ("past the end", 'b', r#"refused(compute.writeBufferU32, "a", { 1 }, 32)"#),
        ("a value that is no word", 'b', r#"refused(compute.writeBufferU32, "a", { 2 ^ 32 })"#),
    ]),
    row("compute.writeFloatsTexture3D", "t", &[
        ("a value that is no number", 't', r#"{ 1, 1, 1, "x" }))"#),
        ("another format than the texture's", 't', r#"{ 1, 1, 1, 1 }, "rgba32f"))"#),
        ("a format that is none", 't', r#"{ 1, 1, 1, 1 }, "rgba9"))"#),
    ]),
    row("compute.writeTexture3D", "dt", &[
        ("another number of bytes", 't', r#"pcall(compute.writeTexture3D, "volume", wrong)"#),
        ("entries that are no bytes", 't', "for _, wrong in { { 256 }, { -1 }, { 0.5 }, { \"x\" } } do"),
    ]),
    row("compute.program.compile", "ap", &[
        ("as compute.compile, which it is", 'p', "program.compile is the same by another name"),
    ]),
    row("compute.program.destroy", "p", &[
        ("twice", 'p', r#"compute.program.destroy("plain") == false"#),
    ]),
    row("compute.program.dispatch", "ap", &[
        ("no workgroups along an axis", 'p', r#"compute.program.dispatch("late", { buffers = { "data" }, workgroups = { 0 } })"#),
    ]),
    row("compute.program.dispatchEx", "p", &[
        ("a resource kind that is none", 'p', r#"not pcall(compute.program.dispatchEx, "plain", { resources = { { kind = "teapot""#),
        ("no workgroups along an axis", 'p', r#"compute.program.dispatchEx("late", { resources = { { kind = "buffer", name = "data" } }, workgroups = { 1, 0 } })"#),
    ]),
    row("compute.program.dispatchOnVertices", "m", &[
        ("no workgroups along an axis", 'm', r#"compute.program.dispatchOnVertices("flatten", { model = quad, buffers = { "level" }, workgroups = { 1, 0 } })"#),
    ]),
    row("compute.program.setParam", "p", &[
        ("a parameter that is not declared", 'p', r#"not compute.program.setParam("scaled", "no such", 1)"#),
    ]),
    row("compute.program.status", "adip", &[
        ("no key", 'p', "compute.program.status: key: got nil"),
        ("a program that is gone", 'p', r#"#compute.program.status("plain") == 0"#),
    ]),
    row("Buffer.completeReadback", "f", &[
        ("not ready", 'f', r#"Buffer.completeReadback(token, a) == false, "not ready yet""#),
        ("a buffer that is not there", 'f', r#"Buffer.completeReadback(token, 999) == false"#),
        ("another size", 'f', "Buffer.completeReadback(token, Buffer.create(1, 1)) == false"),
        ("twice", 'f', "a token is used once"),
    ]),
    row("Buffer.copy", "f", &[
        ("another stride", 'f', "Buffer.copy(c, b) == false"),
        ("a buffer that is not there", 'f', "Buffer.copy(c, 999) == false and Buffer.copy(999, c) == false"),
    ]),
    row("Buffer.create", "df", &[
        ("a stride that is none", 'f', "not pcall(Buffer.create, bad, 1)"),
    ]),
    row("Buffer.destroy", "f", &[
        ("twice", 'f', "Buffer.destroy(b) == false"),
    ]),
    row("Buffer.gpuName", "f", &[
        ("not promoted", 'f', "Buffer.gpuName(a) == nil"),
    ]),
    row("Buffer.isReadbackReady", "f", &[
        ("not ready", 'f', "Buffer.isReadbackReady(token) == false"),
    ]),
    row("Buffer.read", "f", &[
        ("out of bounds, or not there", 'f', "Buffer.read(a, 11, 2) == nil and Buffer.read(a, -1, 1) == nil and Buffer.read(999, 0, 1) == nil"),
    ]),
    row("Buffer.size", "f", &[
        ("a buffer that is not there", 'f', "Buffer.size(999) == nil"),
    ]),
    row("Buffer.syncFromGpu", "f", &[
        ("not promoted", 'f', "Buffer.syncFromGpu(a) == nil"),
    ]),
    row("Buffer.syncToGpu", "df", &[
        ("not promoted", 'f', "Buffer.syncToGpu(a) == false"),
        ("its device buffer is gone", 'd', "uploadAsStorage promotes it again"),
    ]),
    row("Buffer.unregisterStorage", "f", &[
        ("not promoted", 'f', "Buffer.unregisterStorage(a) == false"),
    ]),
    row("Buffer.uploadAsStorage", "df", &[
        ("a buffer that is not there", 'f', "Buffer.uploadAsStorage(999) == nil"),
    ]),
    row("Buffer.write", "f", &[
        ("out of bounds", 'f', "Buffer.write(a, case[1], case[2]) == false"),
        ("a buffer that is not there", 'f', "Buffer.write(999, 0, { 1 }) == false"),
    ]),
    row("Buffer.zero", "f", &[
        ("a buffer that is not there", 'f', "Buffer.zero(999) == false"),
    ]),
];

/// Functions of the reference: `compute`, `compute.program` and `Buffer`.
const ALL: usize = 48 + 7 + 14;

/// What a host registers in the three namespaces.
fn registered() -> BTreeSet<String> {
    let of_reference = |namespace: &str| matches!(namespace, "compute" | "compute.program" | "Buffer");
    let all = ashfall::luau::functions().filter(|(namespace, ..)| of_reference(namespace));
    all.map(|(namespace, name, _)| format!("{namespace}.{name}")).collect()
}

#[test]
fn every_function_is_covered() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/conformance");
    let text = |letter: char| {
        let (_, name) = SCRIPTS.iter().find(|(l, _)| *l == letter).unwrap_or_else(|| panic!("no script is '{letter}'"));
        let text = std::fs::read_to_string(folder.join(name).with_extension("luau")).unwrap();
        (name, text)
    };
    let listed: BTreeSet<String> = TABLE.iter().map(|r| r.function.to_owned()).collect();
    assert_eq!(listed.len(), TABLE.len(), "a function is listed twice");
    assert_eq!(TABLE.len(), ALL);
    let registered = registered();
    assert_eq!(registered, listed, "what is registered and what is listed");

    let mut faults = Vec::new();
    for Row { function, scripts, failures } in TABLE {
        if scripts.is_empty() {
            faults.push(format!("{function}: no script"));
        }
        for (name, text) in scripts.chars().map(text) {
            // Called, or handed to pcall; a longer name that starts like it is another function.
            let called = text.match_indices(function).any(|(at, _)| {
                let before = text[..at].chars().next_back();
                let after = text[at + function.len()..].chars().next();
                before.is_none_or(|c| !c.is_alphanumeric() && c != '.')
                    && after.is_some_and(|c| "(,)".contains(c) || c.is_whitespace())
            });
            if !called {
                faults.push(format!("{function}: {name}.luau does not call it"));
            }
        }
        for (what, letter, line) in *failures {
            let (name, text) = text(*letter);
            if !text.contains(line) {
                faults.push(format!("{function}, {what}: {name}.luau has no line with: {line}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
