//! Assets in folders, with their files watched.
//!
//! | on disk | asset |
//! |---|---|
//! | folder `NAME.computeShader` with `bindings.yaml` and one `.wgsl` file | compute shader `NAME` |
//! | files `NAME.wgsl` and `NAME.bindings.yaml` beside each other | compute shader `NAME` |
//! | file `NAME.obj`, `NAME.gltf` or `NAME.glb` | mesh `NAME` |
//!
//! Folders and files whose names start with a dot are passed over, and so are links to folders. An identity says nothing
//! of the kind: of a shader and a mesh called alike in one folder only the first by its path is an asset.

use super::built_in::{BUILT_IN, ROOT};
use super::{Asset, AssetKind, Assets, bindings};
use crate::mesh::{Mesh, load};
use crate::shader::ProgramSource;
use hashbrown::{HashMap, HashSet};
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

/// What was last written into something this recently may be written into again without its time moving.
const COARSE: Duration = Duration::from_secs(1);

/// The guid written in a `bindings.yaml`, as of its last readable state.
#[derive(Debug, Default)]
struct Written {
    stamp: Stamp,
    guid: Option<String>,
}

/// Assets in folders.
///
/// Cost: folders are looked at when they are listed and when something is not found, at most once in a fifth of a
/// second and for at most a fiftieth of the time: one `stat` for each folder and shader. They are read again when one
/// of them has changed. [`Assets::changed`] asks for the times of the files of shaders in use as often.
#[derive(Debug)]
pub struct FolderAssets {
    roots: Vec<Root>,
    entries: Vec<Entry>,
    /// Guid, identity, paths and name to an entry; `None` where several have the name.
    references: HashMap<String, Option<usize>>,
    /// The folders and shaders' bindings that were read, and when.
    read: Vec<(PathBuf, Stamp)>,
    read_at: SystemTime,
    /// No look at the folders before.
    due: Instant,
    /// Files of the shaders given out, by guid.
    watched: HashMap<String, Vec<(PathBuf, Stamp)>>,
    looked: Instant,
    written: HashMap<PathBuf, Written>,
    /// The guid that the asset of each identity first had: programs and handles go by it.
    given: HashMap<String, String>,
    /// Warnings that were made, each of which is enough once.
    told: HashSet<String>,
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
            read: Vec::new(),
            read_at: SystemTime::UNIX_EPOCH,
            due: now,
            watched: HashMap::new(),
            looked: now,
            written: HashMap::new(),
            given: HashMap::new(),
            told: HashSet::new(),
        };
        assets.scan();
        assets
    }

    fn scan(&mut self) {
        self.read_at = SystemTime::now();
        self.read.clear();
        // Each with the guid that its file gives it.
        let mut found: Vec<(Asset, Option<String>, Files)> = Vec::new();
        for (path, wgsl, yaml) in BUILT_IN {
            let guid = bindings::parse_bindings(yaml).ok().and_then(|p| p.guid);
            let asset = describe(ROOT, path, AssetKind::ComputeShader, path);
            found.push((asset, guid, Files::BuiltIn { wgsl, bindings: yaml }));
        }
        for root in &self.roots {
            let mut walk = Walk { read: &mut self.read, warnings: Vec::new() };
            walk.folder(&root.folder, DEPTH, &mut |path, kind, files| {
                let relative = path.strip_prefix(&root.folder).unwrap_or(path);
                let relative = relative.to_string_lossy().replace('\\', "/");
                let asset = describe(&root.name, &stem(&relative), kind, &path.to_string_lossy());
                found.push((asset, None, files));
            });
            for warning in walk.warnings {
                warn_once(&mut self.told, warning);
            }
        }
        for (_, guid, files) in &mut found {
            if let Files::Shader { bindings, .. } = files {
                let stamp = stamp(bindings);
                self.read.push((bindings.clone(), stamp));
                *guid = written_guid(bindings, stamp, self.written.entry(bindings.clone()).or_default());
            }
        }
        // The order of a folder differs from machine to machine; which of two assets comes first must not.
        found.sort_by(|(a, ..), (b, ..)| (&a.identity, &a.path).cmp(&(&b.identity, &b.path)));
        self.entries.clear();
        self.references.clear();
        let before = std::mem::take(&mut self.given);
        for (mut asset, guid, files) in found {
            if let Some(Some(other)) = self.references.get(&asset.identity) {
                let first = &self.entries[*other].asset.path;
                let warning = format!("{}: passed over, \"{}\" is {first} already", asset.path, asset.identity);
                warn_once(&mut self.told, warning);
                continue;
            }
            let own = derived_guid(&asset.identity);
            let written = guid.unwrap_or_else(|| own.clone());
            asset.guid = before.get(&asset.identity).cloned().unwrap_or_else(|| written.clone());
            if let Some(Some(other)) = self.references.get(&asset.guid) {
                let first = &self.entries[*other].asset.path;
                let warning = format!("{}: its guid {} is that of {first}; it is {own} here", asset.path, asset.guid);
                warn_once(&mut self.told, warning);
                asset.guid = own;
            }
            let index = self.entries.len();
            for reference in asset.short_names() {
                // Guid and identity belong to one asset; what others share with it names neither.
                self.references.entry(reference).and_modify(|known| *known = None).or_insert(Some(index));
            }
            self.references.insert(asset.guid.clone(), Some(index));
            self.references.insert(asset.identity.clone(), Some(index));
            // A guid that was changed in the file names the asset as well.
            self.references.entry(written).or_insert(Some(index));
            self.given.insert(asset.identity.clone(), asset.guid.clone());
            self.entries.push(Entry { asset: Rc::new(asset), files });
        }
    }

    /// Reads the folders again if it is time to look and one of them has changed.
    fn rescan_if_due(&mut self) {
        let start = Instant::now();
        if start < self.due {
            return;
        }
        let moved = |(path, known): &(PathBuf, Stamp)| {
            // A time this close to the reading may hide what was written after it.
            let fresh = known.is_some_and(|(time, _)| time + COARSE > self.read_at);
            fresh || stamp(path) != *known
        };
        if self.read.iter().any(moved) {
            self.scan();
        }
        self.due = Instant::now() + LOOK.max(50 * start.elapsed());
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

/// `a/b/name.ext` without its extension.
fn stem(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').map_or((None, path), |(f, n)| (Some(f), n));
    let name = name.rsplit_once('.').map_or(name, |(s, _)| s);
    folder.map_or_else(|| name.to_owned(), |f| format!("{f}/{name}"))
}

/// An asset that has no guid yet.
fn describe(root: &str, stem: &str, kind: AssetKind, path: &str) -> Asset {
    let identity = format!("@{root}::{}", stem.replace('/', "."));
    let name = stem.rsplit('/').next().unwrap_or_default().to_owned();
    Asset { guid: String::new(), identity, name, kind, path: path.to_owned() }
}

fn derived_guid(identity: &str) -> String {
    uuid::Uuid::new_v5(&NAMESPACE, identity.as_bytes()).to_string()
}

fn warn_once(told: &mut HashSet<String>, warning: String) {
    if !told.contains(&warning) {
        tracing::warn!("{warning}");
        told.insert(warning);
    }
}

/// The guid in a `bindings.yaml`, read when its stamp is another one; the one it had while it cannot be read.
fn written_guid(path: &Path, stamp: Stamp, known: &mut Written) -> Option<String> {
    let settled = stamp.is_some_and(|(time, _)| time.elapsed().is_ok_and(|age| age > COARSE));
    if known.stamp != stamp || !settled {
        let text = std::fs::read_to_string(path).ok();
        if let Some(Ok(parsed)) = text.map(|t| bindings::parse_bindings(&t)) {
            known.guid = parsed.guid;
        }
        known.stamp = stamp;
    }
    known.guid.clone()
}

/// A look through folders.
struct Walk<'a> {
    /// Every folder that was read, stamped before.
    read: &'a mut Vec<(PathBuf, Stamp)>,
    warnings: Vec<String>,
}

impl Walk<'_> {
    /// Calls `found` with every asset of a folder and below.
    fn folder(&mut self, folder: &Path, depth: usize, found: &mut impl FnMut(&Path, AssetKind, Files)) {
        self.read.push((folder.to_owned(), stamp(folder)));
        let Ok(list) = std::fs::read_dir(folder) else {
            self.warnings.push(format!("{}: no such folder of assets", folder.display()));
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
                    self.read.push((path.clone(), stamp(&path)));
                    match shader_folder(&path) {
                        Ok(files) => found(&path, AssetKind::ComputeShader, files),
                        Err(reason) => self.warnings.push(format!("{}: passed over: {reason}", path.display())),
                    }
                } else if depth > 0 {
                    self.folder(&path, depth - 1, found);
                }
            } else if let Some(name) = name.strip_suffix(".bindings.yaml") {
                let wgsl = path.with_file_name(format!("{name}.wgsl"));
                if wgsl.is_file() {
                    found(&wgsl.clone(), AssetKind::ComputeShader, Files::Shader { wgsl, bindings: path });
                } else {
                    let reason = format!("there is no {name}.wgsl beside it");
                    self.warnings.push(format!("{}: passed over: {reason}", path.display()));
                }
            } else if matches!(extension.as_str(), "obj" | "gltf" | "glb") {
                found(&path.clone(), AssetKind::Mesh, Files::Mesh(path));
            }
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
        if !crate::files::stays_inside(name) {
            return None;
        }
        let folders: Vec<PathBuf> = beside.into_iter().chain(self.roots.iter().map(|r| r.folder.clone())).collect();
        for folder in folders {
            let path = folder.join(name);
            // Stamped before it is read. Where it is not there yet is watched too: it may come, or come to be nearer.
            if let Some(watch) = self.watched.get_mut(guid) {
                let stamp = stamp(&path);
                watch.push((path, stamp));
            }
            if let Ok(text) = crate::files::read_beside(&folder, name) {
                return Some(text);
            }
        }
        None
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
