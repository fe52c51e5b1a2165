//! Paths that stay inside a folder.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// What a path must be.
pub(crate) const ACCEPTED: &str = "a relative path inside the script's folder";

/// Whether a path is relative and goes nowhere up. A link may still lead out.
pub(crate) fn stays_inside(text: &str) -> bool {
    Path::new(text).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir))
}

/// The file behind a relative path in a folder or below; nothing outside it, not even by a link.
pub(crate) fn inside(folder: &Path, text: &str) -> Result<PathBuf, String> {
    let relative = Path::new(text);
    let refuse = || format!("path: got \"{text}\"; expected {ACCEPTED}");
    if !stays_inside(text) {
        return Err(refuse());
    }
    let say = |e: std::io::Error| format!("\"{text}\": {e}");
    let folder = folder.canonicalize().map_err(say)?;
    let full = folder.join(relative).canonicalize().map_err(say)?;
    // A link may lead out of the folder even where the path does not.
    if full.starts_with(&folder) { Ok(full) } else { Err(refuse()) }
}

/// The text of a file in a folder or below, for includes of shaders that lie there.
///
/// # Errors
/// A message that names the path, for one that leads out of the folder, is not there or is not UTF-8.
pub fn read_beside(folder: &Path, path: &str) -> Result<String, String> {
    std::fs::read_to_string(inside(folder, path)?).map_err(|e| format!("\"{path}\": {e}"))
}

/// The bytes of a file of at most `limit`.
///
/// # Errors
/// A message that does not name the path, for one that cannot be read, is no regular file or is larger.
pub(crate) fn read_up_to(path: &Path, limit: u64) -> Result<Vec<u8>, String> {
    let say = |e: std::io::Error| e.to_string();
    // Asked before it is opened: to open a pipe is to wait for its other end.
    let about = std::fs::metadata(path).map_err(say)?;
    if !about.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let over = |bytes: u64| Err(format!("got a file of {bytes} bytes; expected at most {limit}"));
    if about.len() > limit {
        return over(about.len());
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(say)?;
    // It may have grown since.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(say)?;
    if bytes.len() as u64 > limit { over(bytes.len() as u64) } else { Ok(bytes) }
}
