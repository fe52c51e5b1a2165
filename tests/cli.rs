//! The command line: exit codes, and what it says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::PathBuf;
use std::process::{Command, Output};

fn ashfall(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ashfall"));
    command.args(args);
    command
}

fn done(mut command: Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// A file in a folder of this test's own.
fn file(name: &str, text: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("cli");
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn run(name: &str, text: &str, extra: &[&str]) -> (i32, String, String) {
    let path = file(name, text);
    let mut command = ashfall(&["run"]);
    command.args(extra).arg(path);
    done(command)
}

#[test]
fn a_script_runs_until_no_task_is_left() {
    let (code, out, err) =
        run("tasks.luau", "print('a') task.delay(0.01, print, 'c') task.wait() print('b')", &["--validate"]);
    assert_eq!((code, out.as_str(), err.as_str()), (0, "a\nb\nc\n", ""));
}

#[test]
fn frames_bound_a_run() {
    let (code, out, _) = run("frames.luau", "while true do print('x') task.wait() end", &["--frames", "3"]);
    assert_eq!((code, out.as_str()), (0, "x\nx\nx\n"));
}

#[test]
fn an_error_prints_its_traceback_and_exits_1() {
    let (code, _, err) = run(
        "error.luau",
        "local function inner()\n  compute.createBuffer('a', { size = -1 })\nend\ntask.wait()\ninner()",
        &[],
    );
    assert_eq!(code, 1);
    assert!(
        err.contains("error.luau:2: compute.createBuffer: opts.size: got -1; expected a positive multiple of 4"),
        "{err}"
    );
    assert!(err.contains("stack traceback:") && err.contains("error.luau:5"), "{err}");
    let (code, _, err) = run("syntax.luau", "local = 5", &[]);
    assert!(code == 1 && err.contains("syntax.luau:1:"), "{err}");
    let (code, _, err) = done(ashfall(&["run", "no/such/file.luau"]));
    assert!(code == 1 && err.contains("no/such/file.luau"), "{err}");
}

#[test]
fn scripts_see_their_own_folder_and_nothing_else() {
    file("beside.txt", "hello");
    let (code, out, err) = run(
        "files.luau",
        "print(fs.readFile('beside.txt')) for _, p in { '../cli/beside.txt', '/etc/hostname', 'missing.txt', 5 } do print((select(2, pcall(fs.readFile, p)))) end",
        &[],
    );
    assert_eq!(code, 0, "{err}");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "hello");
    for line in &lines[1..3] {
        assert!(
            line.contains("fs.readFile: path: got")
                && line.ends_with("expected a relative path inside the script's folder"),
            "{line}"
        );
    }
    assert!(lines[3].contains("\"missing.txt\"") && lines[4].contains("got 5"), "{lines:?}");
}

#[test]
fn the_plan_and_the_counts_can_be_seen() {
    let (code, _, err) = run(
        "plan.luau",
        "compute.createBuffer('a', { size = 8 }) compute.writeBuffer('a', { 1 }) compute.readBuffer('a')",
        &["--plan", "--stats"],
    );
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains("#0 fill a[0..8] with 0x0")
            && err.contains("because #1 upload follows #0 fill on a: write after write"),
        "{err}"
    );
    assert!(err.contains("frame 1: 3 commands, 3 levels, 2 barriers"), "{err}");
}

#[test]
fn dispatches_that_never_ran_are_told_at_the_end() {
    let script = "compute.createBuffer('a', { size = 8 })
        compute.dispatch('typo', { buffers = { 'a' }, workgroups = { 1 } })";
    let (code, _, err) = run("failing.luau", script, &[]);
    assert!(code == 0 && err.contains("typo on \"a\" failed in 1 of 1 dispatches: no program is named"), "{err}");
    assert!(!err.contains('\u{1b}'), "colours in a pipe: {err}");
}

#[test]
fn devices_are_listed_with_their_verdict() {
    let (code, out, _) = done(ashfall(&["devices"]));
    assert!(code == 0 && out.lines().filter(|l| l.ends_with(": chosen")).count() == 1, "{out}");
    let (code, out, _) = done(ashfall(&["devices", "--device", "no such device"]));
    assert!(code == 0 && out.contains("passed over: it does not match \"no such device\""), "{out}");
    let path = file("empty.luau", "");
    let (code, _, err) = done(ashfall(&["run", "--device", "no such device", path.to_str().unwrap()]));
    assert!(code == 2 && err.contains("it does not match"), "{err}");
}

#[test]
fn without_a_driver_it_says_what_to_install() {
    let path = file("nothing.luau", "");
    let mut command = ashfall(&["run", path.to_str().unwrap()]);
    command.env("VK_DRIVER_FILES", "/nonexistent.json").env("VK_ICD_FILENAMES", "/nonexistent.json");
    let (code, _, err) = done(command);
    assert!(code == 2 && err.contains("apt-get install") && err.contains("mesa-vulkan-drivers"), "{code} {err}");
}

#[test]
fn check_compiles_files_and_shows_their_faults() {
    let good = file(
        "good.wgsl",
        "@group(0) @binding(0) var<storage, read_write> a: array<u32>;\n@compute @workgroup_size(8, 4) fn go() { a[0] += 1u; }",
    );
    let bad = file("bad.wgsl", "// a\nfn f() -> u32 { return x; }");
    let (code, out, err) = done(ashfall(&["check", good.to_str().unwrap()]));
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(
        out.contains("ok, entry point go, workgroup 8x4x1")
            && out.contains("binding 0 a: read and written, at least 4 bytes"),
        "{out}"
    );
    let (code, out, err) = done(ashfall(&["check", good.to_str().unwrap(), bad.to_str().unwrap()]));
    assert!(code == 1 && out.contains("good.wgsl: ok") && err.contains("bad.wgsl:2:24:"), "{out}{err}");
}

/// Shaders include files beside them and built-in ones, and faults are shown in the file they are in.
#[test]
fn shaders_include_files_beside_them() {
    file("part.wgsl", "// a part\nfn part(i: u32) -> u32 { return random_hash(i); }");
    file("broken.wgsl", "// fine\nfn part() -> u32 { return oops; }");
    let head = "#include \"ashfall/random.wgsl\"\n#include \"part.wgsl\"\n";
    let main = "@group(0) @binding(0) var<storage, read_write> a: array<u32>;\n@compute @workgroup_size(4) fn main(@builtin(local_invocation_index) i: u32) { a[i] = part(i); }\n";
    let good = file("includes.wgsl", &format!("{head}{main}"));
    let (code, out, err) = done(ashfall(&["check", good.to_str().unwrap()]));
    assert!(code == 0 && out.contains("includes.wgsl: ok"), "{out}{err}");
    let bad = file("includes_bad.wgsl", &format!("#include \"broken.wgsl\"\n{main}"));
    let (code, _, err) = done(ashfall(&["check", bad.to_str().unwrap()]));
    assert!(code == 1 && err.starts_with("broken.wgsl:2:27:"), "{err}");
    // The hash as its paper has it, computed here.
    let hash = |v: u32| {
        let state = v.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let word = ((state >> ((state >> 28) + 4)) ^ state).wrapping_mul(277_803_737);
        (word >> 22) ^ word
    };
    let script = format!(
        "compute.createBuffer('a', {{ size = 16 }}) compute.registerShader('h', {{ source = [[\n{head}{main}]] }})
         while compute.programState('h') == 'pending' do task.wait() end
         compute.dispatch('h', {{ buffers = {{ 'a' }}, workgroups = {{ 1 }} }})
         local key = compute.readBuffer('a')
         repeat task.wait() until compute.isReadbackReady(key)
         print(table.concat(compute.getReadbackResultU32(key), ' '))"
    );
    let (code, out, err) = run("includes.luau", &script, &["--validate"]);
    let expected = (0..4).map(|i| hash(i).to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!((code, out.trim()), (0, expected.as_str()), "{err}");
}

/// The README's script prints what the README says it prints.
#[test]
fn the_readme_does_not_lie() {
    let readme = include_str!("../README.md");
    let script = readme.split("```luau\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let expected = script.rsplit("--> ").next().unwrap().trim();
    let (code, out, err) = run("readme.luau", script, &["--validate"]);
    assert_eq!((code, out.trim(), err.as_str()), (0, expected, ""));
}
