//! Paths that stay inside a folder.

use std::path::{Component, Path, PathBuf};

/// What a path must be.
pub(crate) const ACCEPTED: &str = "a relative path inside the script's folder";

/// The file behind a relative path in a folder or below; nothing outside it, not even by a link.
pub(crate) fn inside(folder: &Path, text: &str) -> Result<PathBuf, String> {
    let relative = Path::new(text);
    let refuse = || format!("path: got \"{text}\"; expected {ACCEPTED}");
    if relative.components().any(|c| !matches!(c, Component::Normal(_) | Component::CurDir)) {
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
