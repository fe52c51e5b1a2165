//! Assets: compute shaders and meshes that lie in folders, found by guid, identity, path or name.
//!
//! An asset's *identity* says where it lies: `@user::shaders.blur` is `shaders/blur.computeShader` in the folder that
//! is called `user`. Its *guid* stays the same when it moves: it is written in the shader's `bindings.yaml`, and without
//! that is made from the identity. Programs of assets are registered under their guid, so two shaders called alike
//! never collide.
//!
//! [`FolderAssets`] is the one that comes with the crate. An engine with assets of its own implements [`Assets`].

mod bindings;
mod built_in;
mod folder;

pub use bindings::{BindingsError, Parsed, parse_bindings};
pub use folder::{FolderAssets, Root};

use crate::mesh::Mesh;
use crate::shader::ProgramSource;
use std::rc::Rc;

/// What an asset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AssetKind {
    /// WGSL without declarations, and the bindings that go with it.
    ComputeShader,
    /// Triangles.
    Mesh,
}

impl AssetKind {
    /// Every kind.
    pub const ALL: &'static [Self] = &[Self::ComputeShader, Self::Mesh];

    /// The kind's name as scripts see it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ComputeShader => "computeShader",
            Self::Mesh => "mesh",
        }
    }

    /// From a script's name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|k| k.name() == name)
    }
}

/// One asset, as much of it as is known without reading its contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asset {
    /// Names it for good.
    pub guid: String,
    /// Where it lies, in the form `@root::folder.name`.
    pub identity: String,
    /// Its own name, without folders and extension.
    pub name: String,
    /// What it is.
    pub kind: AssetKind,
    /// The file or folder, as messages show it.
    pub path: String,
}

impl Asset {
    /// What it may be called besides its guid and its identity: `@user/shaders/blur`, `shaders/blur`, `blur`,
    /// `shaders/blur.computeShader` and [`Asset::path`].
    #[must_use]
    pub fn short_names(&self) -> Vec<String> {
        let mut list = vec![self.name.clone()];
        if let Some((root, dotted)) = self.identity.split_once("::") {
            let plain = dotted.replace('.', "/");
            if let Some(extension) = std::path::Path::new(&self.path).extension() {
                list.push(format!("{plain}.{}", extension.display()));
            }
            list.extend([format!("{root}/{plain}"), plain]);
        }
        list.push(self.path.clone());
        list.sort_unstable();
        list.dedup();
        list
    }
}

/// Where assets come from.
pub trait Assets {
    /// Every asset, in the order of identities.
    fn list(&mut self) -> Vec<Rc<Asset>>;

    /// The asset behind a guid, an identity, a path or a name that only one asset has.
    fn resolve(&mut self, reference: &str) -> Option<Rc<Asset>>;

    /// The program of a compute shader: its key is the guid, its label the identity.
    ///
    /// # Errors
    /// A message with file and line for contents that cannot be read, and for a guid that is no shader's.
    fn shader(&mut self, guid: &str) -> Result<ProgramSource, String>;

    /// A mesh, read from its file.
    ///
    /// # Errors
    /// A message with the file for contents that cannot be read, and for a guid that is no mesh's.
    fn mesh(&mut self, guid: &str) -> Result<Mesh, String>;

    /// The text that a shader, or with an empty guid any source, includes under a name.
    fn include(&mut self, guid: &str, name: &str) -> Option<String>;

    /// Guids of the shaders given out whose files, or files they include, are no longer what they were. Called once a
    /// frame: it must be cheap when nothing has changed.
    fn changed(&mut self) -> Vec<String>;
}
