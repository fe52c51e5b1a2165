//! Assets in folders, with their files watched.
//!
//! | on disk | asset |
//! |---|---|
//! | folder `NAME.computeShader` with `bindings.yaml` and one `.wgsl` file | compute shader `NAME` |
//! | files `NAME.wgsl` and `NAME.bindings.yaml` beside each other | compute shader `NAME` |
//! | file `NAME.obj`, `NAME.gltf` or `NAME.glb` | mesh `NAME` |
//!
//! Folders and files whose names start with a dot are passed over, and so are links to folders.

use super::built_in::{BUILT_IN, ROOT};
use super::{Asset, AssetKind, Assets, bindings};
use crate::mesh::{Mesh, load};
use crate::shader::ProgramSource;
use hashbrown::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

/// Guids that no file writes down are made from the identity within this namespace.
const NAMESPACE: uuid::Uuid = uuid::uuid!("5d7c1a52-8f0e-4c39-9d6b-1f2b5a6c7e80");

/// The shortest time between two looks at the files.
const LOOK: Duration = Duration::from_millis(200);

/// Folders within folders at most.
const DEPTH: usize = 32;

/// A folder of assets and the name it goes by in identities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// `user` in `@user::shaders.blur`.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
}

impl Root {
    /// From `FOLDER`, whose root is called `user`, or `NAME=FOLDER`.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text.split_once('=') {
            Some((name, folder)) if !name.is_empty() && !name.contains(['/', '.', ':', '\\']) => {
                Self { name: name.to_owned(), folder: folder.into() }
            }
            _ => Self { name: "user".to_owned(), folder: text.into() },
        }
    }
}

/// The files of an asset.
#[derive(Clone, Debug)]
enum Files {
    Shader { wgsl: PathBuf, bindings: PathBuf },
    BuiltIn { wgsl: &'static str, bindings: &'static str },
    Mesh(PathBuf),
}

#[derive(Debug)]
struct Entry {
    asset: Rc<Asset>,
    files: Files,
}

/// When a file was written and how long it is; `None` for a file that is not there.
type Stamp = Option<(SystemTime, u64)>;

fn stamp(path: &Path) -> Stamp {
    let meta = std::fs::metadata(path).ok()?;
    Some((meta.modified().ok()?, meta.len()))
}

/// Assets in folders.
///
/// Cost: folders are read when it is made, when they are listed and when something is not found, at most once in a
/// fifth of a second; [`Assets::changed`] asks for the times of the files of shaders in use as often.
#[derive(Debug)]
pub struct FolderAssets {
    roots: Vec<Root>,
    entries: Vec<Entry>,
    /// Guid, identity, paths and name to an entry; `None` where several have the name.
    references: HashMap<String, Option<usize>>,
    scanned: Instant,
    /// Files of the shaders given out, by guid.
    watched: HashMap<String, Vec<(PathBuf, Stamp)>>,
    looked: Instant,
    /// Guid of the asset at each path, so that one stays the same while its file cannot be read.
    guids: HashMap<PathBuf, String>,
}

impl FolderAssets {
    /// Reads the folders. One that is not there holds nothing until it is.
    #[must_use]
    pub fn new(roots: Vec<Root>) -> Self {
        let now = Instant::now();
        let mut assets = Self {
            roots,
            entries: Vec::new(),
            references: HashMap::new(),
            scanned: now,
            watched: HashMap::new(),
            looked: now,
            guids: HashMap::new(),
        };
        assets.scan();
        assets
    }

    fn scan(&mut self) {
        let mut found = Vec::new();
        for (path, wgsl, yaml) in BUILT_IN {
            let parsed = bindings::parse_bindings(yaml).ok().and_then(|p| p.guid);
            found.push((
                describe(ROOT, path, AssetKind::ComputeShader, path, parsed),
                Files::BuiltIn { wgsl, bindings: yaml },
            ));
        }
        for root in &self.roots {
            walk(&root.folder, &root.folder, DEPTH, &mut |path, kind, files| {
                let relative = path.strip_prefix(&root.folder).unwrap_or(path);
                let guid = match &files {
                    Files::Shader { bindings, .. } => written_guid(bindings, &mut self.guids),
                    _ => None,
                };
                let relative = relative.to_string_lossy().replace('\\', "/");
                found.push((describe(&root.name, &stem(&relative), kind, &path.to_string_lossy(), guid), files));
            });
        }
        // The order of a folder differs from machine to machine; which of two assets comes first must not.
        found.sort_by(|(a, _), (b, _)| (&a.identity, &a.path).cmp(&(&b.identity, &b.path)));
        self.entries.clear();
        self.references.clear();
        for (mut asset, files) in found {
            if let Some(Some(other)) = self.references.get(&asset.identity) {
                let first = &self.entries[*other].asset.path;
                tracing::warn!("{}: passed over, \"{}\" is {first} already", asset.path, asset.identity);
                continue;
            }
            if let Some(Some(other)) = self.references.get(&asset.guid) {
                let own = derived_guid(&asset.identity);
                let first = &self.entries[*other].asset.path;
                tracing::warn!("{}: its guid {} is that of {first}; it is {own} here", asset.path, asset.guid);
                asset.guid = own;
            }
            let index = self.entries.len();
            for reference in references(&asset) {
                // Guid and identity belong to one asset; what others share with it names neither.
                self.references.entry(reference).and_modify(|known| *known = None).or_insert(Some(index));
            }
            self.references.insert(asset.guid.clone(), Some(index));
            self.references.insert(asset.identity.clone(), Some(index));
            self.entries.push(Entry { asset: Rc::new(asset), files });
        }
        self.scanned = Instant::now();
    }

    fn rescan_if_due(&mut self) -> bool {
        let due = self.scanned.elapsed() >= LOOK;
        if due {
            self.scan();
        }
        due
    }

    fn find(&self, reference: &str) -> Option<&Entry> {
        self.entries.get((*self.references.get(reference)?)?)
    }

    fn of_guid(&self, guid: &str, kind: AssetKind) -> Result<&Entry, String> {
        match self.find(guid) {
            Some(entry) if entry.asset.kind == kind => Ok(entry),
            Some(entry) => Err(format!("\"{}\" is a {}, not a {}", guid, entry.asset.kind.name(), kind.name())),
            None => Err(format!("no asset is known as \"{guid}\"")),
        }
    }
}

/// What an asset is called besides its guid and identity.
fn references(asset: &Asset) -> Vec<String> {
    let Some((root, dotted)) = asset.identity.split_once("::") else { return Vec::new() };
    let plain = dotted.replace('.', "/");
    let mut list = vec![format!("{root}/{plain}"), plain, asset.name.clone()];
    list.dedup();
    list
}

/// `a/b/name.ext` without its extension.
fn stem(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').map_or((None, path), |(f, n)| (Some(f), n));
    let name = name.rsplit_once('.').map_or(name, |(s, _)| s);
    folder.map_or_else(|| name.to_owned(), |f| format!("{f}/{name}"))
}

fn describe(root: &str, stem: &str, kind: AssetKind, path: &str, guid: Option<String>) -> Asset {
    let identity = format!("@{root}::{}", stem.replace('/', "."));
    let name = stem.rsplit('/').next().unwrap_or_default().to_owned();
    let guid = guid.unwrap_or_else(|| derived_guid(&identity));
    Asset { guid, identity, name, kind, path: path.to_owned() }
}

fn derived_guid(identity: &str) -> String {
    uuid::Uuid::new_v5(&NAMESPACE, identity.as_bytes()).to_string()
}

/// The guid in a `bindings.yaml`; the one it had while the file cannot be read.
fn written_guid(path: &Path, known: &mut HashMap<PathBuf, String>) -> Option<String> {
    let text = std::fs::read_to_string(path).ok();
    match text.map(|t| bindings::parse_bindings(&t)) {
        Some(Ok(parsed)) => {
            match &parsed.guid {
                Some(guid) => known.insert(path.to_owned(), guid.clone()),
                None => known.remove(path),
            };
            parsed.guid
        }
        _ => known.get(path).cloned(),
    }
}

/// Calls `found` with every asset of a folder and below.
fn walk(root: &Path, folder: &Path, depth: usize, found: &mut impl FnMut(&Path, AssetKind, Files)) {
    let Ok(list) = std::fs::read_dir(folder) else {
        if root == folder {
            tracing::warn!("{}: no such folder of assets", folder.display());
        }
        return;
    };
    for entry in list.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        // Links to files are followed, links to folders are not: those could go in circles.
        let linked_folder = entry.file_type().is_ok_and(|t| t.is_symlink()) && path.is_dir();
        if name.starts_with('.') || linked_folder {
            continue;
        }
        let extension = path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
        if path.is_dir() {
            if name.ends_with(".computeShader") {
                match shader_folder(&path) {
                    Ok(files) => found(&path, AssetKind::ComputeShader, files),
                    Err(reason) => tracing::warn!("{}: passed over: {reason}", path.display()),
                }
            } else if depth > 0 {
                walk(root, &path, depth - 1, found);
            }
        } else if let Some(name) = name.strip_suffix(".bindings.yaml") {
            let wgsl = path.with_file_name(format!("{name}.wgsl"));
            if wgsl.is_file() {
                found(&wgsl.clone(), AssetKind::ComputeShader, Files::Shader { wgsl, bindings: path });
            } else {
                tracing::warn!("{}: passed over: there is no {name}.wgsl beside it", path.display());
            }
        } else if matches!(extension.as_str(), "obj" | "gltf" | "glb") {
            found(&path.clone(), AssetKind::Mesh, Files::Mesh(path));
        }
    }
}

fn shader_folder(folder: &Path) -> Result<Files, String> {
    let bindings = folder.join("bindings.yaml");
    if !bindings.is_file() {
        return Err("there is no bindings.yaml in it".to_owned());
    }
    let mut sources: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(|e| e.to_string())?
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.extension().is_some_and(|e| e == "wgsl"))
        .collect();
    // With includes beside it the main file is the one with the usual name.
    if sources.len() > 1 {
        sources.retain(|p| p.file_name().is_some_and(|n| n == "shader.wgsl" || n == "main.wgsl"));
    }
    match <[PathBuf; 1]>::try_from(sources) {
        Ok([wgsl]) => Ok(Files::Shader { wgsl, bindings }),
        Err(_) => Err("it must hold one .wgsl file, or one that is called shader.wgsl or main.wgsl".to_owned()),
    }
}

impl Assets for FolderAssets {
    fn list(&mut self) -> Vec<Rc<Asset>> {
        self.rescan_if_due();
        self.entries.iter().map(|e| Rc::clone(&e.asset)).collect()
    }

    fn resolve(&mut self, reference: &str) -> Option<Rc<Asset>> {
        if self.find(reference).is_none() {
            self.rescan_if_due();
        }
        self.find(reference).map(|e| Rc::clone(&e.asset))
    }

    fn shader(&mut self, guid: &str) -> Result<ProgramSource, String> {
        let entry = self.of_guid(guid, AssetKind::ComputeShader)?;
        let asset = Rc::clone(&entry.asset);
        let (file, source, yaml_file, yaml) = match &entry.files {
            Files::BuiltIn { wgsl, bindings } => {
                (asset.identity.clone(), (*wgsl).to_owned(), asset.identity.clone(), (*bindings).to_owned())
            }
            Files::Shader { wgsl, bindings } => {
                let (wgsl, bindings) = (wgsl.clone(), bindings.clone());
                // Stamped before it is read: what is written in between is seen as a change.
                let watch = vec![(wgsl.clone(), stamp(&wgsl)), (bindings.clone(), stamp(&bindings))];
                self.watched.insert(guid.to_owned(), watch);
                let read = |p: &Path| std::fs::read_to_string(p).map_err(|e| format!("{}: {e}", p.display()));
                (wgsl.display().to_string(), read(&wgsl)?, bindings.display().to_string(), read(&bindings)?)
            }
            Files::Mesh(_) => return Err(format!("\"{guid}\" is no shader")),
        };
        let parsed = bindings::parse_bindings(&yaml).map_err(|e| format!("{yaml_file}: {e}"))?;
        Ok(ProgramSource {
            entry_point: parsed.entry_point,
            label: Some(parsed.label.unwrap_or_else(|| asset.identity.clone())),
            file: Some(file),
            ..ProgramSource::new(&*asset.guid, source, parsed.interface)
        })
    }

    fn mesh(&mut self, guid: &str) -> Result<Mesh, String> {
        match &self.of_guid(guid, AssetKind::Mesh)?.files {
            Files::Mesh(path) => load::file(path),
            _ => Err(format!("\"{guid}\" is no mesh")),
        }
    }

    fn include(&mut self, guid: &str, name: &str) -> Option<String> {
        let beside = self.find(guid).and_then(|e| match &e.files {
            Files::Shader { wgsl, .. } => wgsl.parent().map(Path::to_owned),
            _ => None,
        });
        let folders: Vec<PathBuf> = beside.into_iter().chain(self.roots.iter().map(|r| r.folder.clone())).collect();
        let (path, text) =
            folders.iter().find_map(|f| crate::files::read_beside(f, name).ok().map(|text| (f.join(name), text)))?;
        if let Some(watch) = self.watched.get_mut(guid) {
            let stamp = stamp(&path);
            watch.push((path, stamp));
        }
        Some(text)
    }

    fn changed(&mut self) -> Vec<String> {
        if self.watched.is_empty() || self.looked.elapsed() < LOOK {
            return Vec::new();
        }
        self.looked = Instant::now();
        let moved = |files: &Vec<(PathBuf, Stamp)>| files.iter().any(|(path, known)| stamp(path) != *known);
        let changed: Vec<String> =
            self.watched.iter().filter(|(_, files)| moved(files)).map(|(guid, _)| guid.clone()).collect();
        // Told once: a file that stays unreadable is not read again before it changes again.
        for guid in &changed {
            if let Some(files) = self.watched.get_mut(guid) {
                files.iter_mut().for_each(|(path, known)| *known = stamp(path));
            }
        }
        changed
    }
}

#[cfg(test)]
mod tests;
