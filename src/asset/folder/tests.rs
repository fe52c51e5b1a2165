//! Folders made by the tests.

use super::*;

const WGSL: &str = "@compute @workgroup_size(1) fn main() {}";

fn put(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn open(folder: &Path) -> FolderAssets {
    FolderAssets::new(vec![Root { name: "user".into(), folder: folder.to_owned() }])
}

const GUID: &str = "0b8f7c1e-5b8e-4f6e-9a52-3a4b8f0d2c11";

#[test]
fn both_forms_and_every_way_to_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(at, "shaders/blur.computeShader/shader.wgsl", WGSL);
    put(at, "shaders/blur.computeShader/common.wgsl", "");
    put(at, "shaders/blur.computeShader/bindings.yaml", &format!("guid: {GUID}\n"));
    put(at, "sim.wgsl", WGSL);
    put(at, "sim.bindings.yaml", "");
    put(at, "meshes/rock.obj", "");
    put(at, "rock.glb", "");
    put(at, ".hidden/x.obj", "");
    put(at, "plain.wgsl", WGSL);
    let mut assets = open(at);
    let listed: Vec<_> =
        assets.list().iter().filter(|a| a.identity.starts_with("@user")).map(|a| a.identity.clone()).collect();
    assert_eq!(listed, ["@user::meshes.rock", "@user::rock", "@user::shaders.blur", "@user::sim"]);
    let path = assets.resolve(GUID).unwrap().path.clone();
    let names =
        [GUID, "@user::shaders.blur", "@user/shaders/blur", "shaders/blur", "blur", "shaders/blur.computeShader"];
    for reference in names.into_iter().chain([&*path]) {
        let asset = assets.resolve(reference).unwrap_or_else(|| panic!("{reference}"));
        assert_eq!((asset.guid.as_str(), asset.kind), (GUID, AssetKind::ComputeShader));
    }
    assert_eq!(assets.resolve("@user/rock").unwrap().kind, AssetKind::Mesh);
    assert_eq!(assets.resolve("meshes/rock.obj").unwrap().identity, "@user::meshes.rock");
    assert!(assets.resolve("nothing").is_none());
    // Both meshes are called rock, and one of them has that as its path.
    assert!(assets.resolve("rock").is_none());
    let program = assets.shader(GUID).unwrap();
    assert_eq!((program.key.as_str(), program.label.as_deref()), (GUID, Some("@user::shaders.blur")));
    assert!(program.file().ends_with("blur.computeShader/shader.wgsl"), "{}", program.file());
}

#[test]
fn a_derived_guid_is_the_same_every_time_and_a_written_one_moves_along() {
    let one = tempfile::tempdir().unwrap();
    put(one.path(), "a.wgsl", WGSL);
    put(one.path(), "a.bindings.yaml", "");
    let first = open(one.path()).resolve("a").unwrap().guid.clone();
    assert_eq!(first, open(one.path()).resolve("a").unwrap().guid);
    put(one.path(), "a.bindings.yaml", &format!("guid: {GUID}"));
    put(one.path(), "sub/b.wgsl", WGSL);
    std::fs::rename(one.path().join("a.bindings.yaml"), one.path().join("sub/b.bindings.yaml")).unwrap();
    assert_eq!(open(one.path()).resolve(GUID).unwrap().identity, "@user::sub.b");
}

#[test]
fn a_copied_guid_is_not_shared() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        put(folder.path(), &format!("{name}.wgsl"), WGSL);
        put(folder.path(), &format!("{name}.bindings.yaml"), &format!("guid: {GUID}"));
    }
    let mut assets = open(folder.path());
    assert_eq!(assets.resolve("a").unwrap().guid, GUID);
    let other = assets.resolve("b").unwrap().guid.clone();
    assert_ne!(other, GUID);
    assert_eq!(assets.shader(&other).unwrap().key, other);
}

#[test]
fn new_files_are_found_and_changed_ones_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut assets = open(folder.path());
    put(folder.path(), "a.wgsl", "#include \"lib/x.wgsl\"\n");
    put(folder.path(), "a.bindings.yaml", "");
    put(folder.path(), "lib/x.wgsl", "// 1");
    std::thread::sleep(LOOK);
    let guid = assets.resolve("a").expect("found by looking again").guid.clone();
    assets.shader(&guid).unwrap();
    assert_eq!(assets.include(&guid, "lib/x.wgsl").as_deref(), Some("// 1"));
    assert_eq!(assets.include(&guid, "../outside.wgsl"), None);
    std::thread::sleep(LOOK);
    assert!(assets.changed().is_empty());
    for (file, text) in [("a.wgsl", "// longer than before"), ("a.bindings.yaml", "# x"), ("lib/x.wgsl", "// 22")] {
        put(folder.path(), file, text);
        std::thread::sleep(LOOK);
        assert_eq!(assets.changed(), [guid.as_str()], "{file}");
        std::thread::sleep(LOOK);
        assert!(assets.changed().is_empty(), "{file} is told once");
    }
}

#[test]
fn a_guid_that_is_written_while_it_runs_becomes_one_more_name() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.wgsl", WGSL);
    put(folder.path(), "a.bindings.yaml", &format!("guid: {GUID}"));
    let mut assets = open(folder.path());
    assert_eq!(assets.resolve("a").unwrap().guid, GUID);
    let other = "7c2d3f5a-0b5e-4a8e-8f38-7f5a1f6f7c22";
    put(folder.path(), "a.bindings.yaml", &format!("guid: {other}"));
    std::thread::sleep(LOOK);
    // Handles and the program have the old one, which the asset keeps until the folders are opened anew.
    assert_eq!(assets.resolve(other).expect("the new one is known").guid, GUID);
    assert_eq!(assets.resolve(GUID).unwrap().guid, GUID);
    assert_eq!(open(folder.path()).resolve("a").unwrap().guid, other);
    // While it cannot be parsed, nothing changes.
    put(folder.path(), "a.bindings.yaml", "guid: [");
    std::thread::sleep(LOOK);
    assert_eq!(assets.list().iter().find(|a| a.name == "a").unwrap().guid, GUID);
}

#[test]
fn an_include_is_watched_where_it_is_not_yet() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(at, "sub/a.wgsl", "#include \"x.wgsl\"\n");
    put(at, "sub/a.bindings.yaml", "");
    let mut assets = open(at);
    let guid = assets.resolve("a").unwrap().guid.clone();
    let told = |assets: &mut FolderAssets| {
        std::thread::sleep(LOOK);
        assets.changed() == [guid.as_str()]
    };
    assets.shader(&guid).unwrap();
    assert_eq!(assets.include(&guid, "x.wgsl"), None);
    assert!(!told(&mut assets));
    put(at, "x.wgsl", "// far");
    assert!(told(&mut assets), "it has come");
    assets.shader(&guid).unwrap();
    assert_eq!(assets.include(&guid, "x.wgsl").as_deref(), Some("// far"));
    put(at, "sub/x.wgsl", "// near");
    assert!(told(&mut assets), "one that is nearer has come");
    assets.shader(&guid).unwrap();
    assert_eq!(assets.include(&guid, "x.wgsl").as_deref(), Some("// near"));
    assert!(!told(&mut assets));
}

#[test]
fn folders_that_have_not_changed_are_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    put(at, "sub/a.wgsl", WGSL);
    put(at, "sub/a.bindings.yaml", "");
    let old = SystemTime::now() - Duration::from_secs(60);
    let age = |path: &Path| std::fs::File::open(path).unwrap().set_modified(old).unwrap();
    for path in ["sub/a.bindings.yaml", "sub", ""] {
        age(&at.join(path));
    }
    let mut assets = open(at);
    let reads = |assets: &mut FolderAssets| {
        let before = assets.read_at;
        std::thread::sleep(LOOK);
        assert!(assets.resolve("nothing").is_none());
        assets.read_at != before
    };
    assert!(!reads(&mut assets));
    put(at, "sub/b.obj", "");
    assert!(reads(&mut assets), "a new file");
    assert!(reads(&mut assets), "its folder was written a moment ago, and may have been since");
    age(&at.join("sub"));
    assert!(reads(&mut assets), "its time has moved");
    assert!(!reads(&mut assets));
    std::fs::create_dir(at.join("more")).unwrap();
    age(at);
    assert!(!reads(&mut assets), "a folder whose time is the one known was not changed");
}

#[test]
fn unreadable_contents_say_where() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.wgsl", WGSL);
    put(folder.path(), "a.bindings.yaml", "bindings: [{ name: x, kind: nope }]");
    put(folder.path(), "m.obj", "");
    let mut assets = open(folder.path());
    let guid = assets.resolve("a").unwrap().guid.clone();
    let error = assets.shader(&guid).unwrap_err();
    assert!(error.contains("a.bindings.yaml: bindings[1].kind: got \"nope\""), "{error}");
    let mesh = assets.resolve("m").unwrap().guid.clone();
    assert!(assets.shader(&mesh).unwrap_err().contains("is a mesh, not a computeShader"));
    assert!(assets.mesh(&guid).unwrap_err().contains("is a computeShader, not a mesh"));
    assert!(assets.mesh("x").unwrap_err().contains("no asset is known as \"x\""));
}

#[test]
fn roots_are_named_or_called_user() {
    let root = |name: &str, folder: &str| Root { name: name.into(), folder: folder.into() };
    assert_eq!(Root::parse("game/assets"), root("user", "game/assets"));
    assert_eq!(Root::parse("game=some/where"), root("game", "some/where"));
    assert_eq!(Root::parse("./a=b"), root("user", "./a=b"));
}
