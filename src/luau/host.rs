//! The neighbours of `compute` that scripts reach, each behind a trait that an engine can implement in its own way.

use crate::asset::{Assets, FolderAssets};
use crate::error::{Error, Result};
use crate::gpu::Gpu;
use crate::inspect::GpuFrame;
use crate::mesh::{Mesh, MeshStore};
use crate::registry::{BufferDesc, BufferId};
use hashbrown::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

/// The meshes behind `meshcpu` and `dispatchOnVertices`.
pub trait Meshes {
    /// Files a mesh under a guid, in place of the one before.
    fn put(&mut self, guid: &str, mesh: Mesh);

    /// The mesh of a guid. The crate keeps what it gets for as long as it works on it, and may read it on other threads.
    fn get(&self, guid: &str) -> Option<Arc<Mesh>>;

    /// Drops a mesh. False when there is none.
    fn unload(&mut self, guid: &str) -> bool;

    /// The buffer on the device that holds a mesh's vertices, as [`crate::mesh::LAYOUT`] has them. `None` for a guid
    /// that names neither a mesh nor such a buffer.
    ///
    /// # Errors
    /// Those of making it.
    fn vertex_buffer(&mut self, gpu: &mut Gpu, guid: &str) -> Result<Option<BufferId>>;
}

/// Meshes in host memory; their vertices go to the device when they are first asked for there.
///
/// A mesh that is put again gets a new buffer. One that is unloaded keeps its buffer, which may hold what shaders made
/// of it, until that is destroyed.
#[derive(Debug, Default)]
pub struct StoredMeshes {
    store: MeshStore,
    /// Buffer and version of the mesh it was filled from.
    buffers: HashMap<String, (BufferId, u64)>,
}

impl Meshes for StoredMeshes {
    fn put(&mut self, guid: &str, mesh: Mesh) {
        self.store.put(guid, mesh);
    }

    fn get(&self, guid: &str) -> Option<Arc<Mesh>> {
        self.store.get(guid)
    }

    fn unload(&mut self, guid: &str) -> bool {
        self.store.unload(guid)
    }

    fn vertex_buffer(&mut self, gpu: &mut Gpu, guid: &str) -> Result<Option<BufferId>> {
        let wanted = self.store.version(guid);
        let held = self.buffers.get(guid).filter(|(id, version)| {
            // Somebody may have destroyed it by its key.
            gpu.buffer_desc(*id).is_some() && wanted.is_none_or(|w| w == *version)
        });
        let held = held.map(|(id, _)| *id);
        if let Some(id) = held.filter(|id| !gpu.is_untouched(*id)) {
            return Ok(Some(id));
        }
        let (Some(mesh), Some(version)) = (self.store.get(guid), wanted) else { return Ok(held) };
        if mesh.positions().is_empty() {
            return Err(Error::argument("model", "a mesh without vertices", "a mesh with at least one"));
        }
        let id = match held {
            // The frame that was to fill it never reached the device.
            Some(id) => id,
            None => gpu.create_vertex_buffer(guid, mesh.vertex_bytes())?,
        };
        gpu.write_buffer_with(id, 0, mesh.vertex_bytes(), |to| {
            mesh.write_vertices(to);
            Ok::<_, Error>(())
        })?;
        self.buffers.retain(|_, (id, _)| gpu.buffer_desc(*id).is_some());
        self.buffers.insert(guid.to_owned(), (id, version));
        Ok(Some(id))
    }
}

/// What `renderer`, `profiler` and `substrate` answer.
pub trait Services {
    /// Bytes that `renderer.gpuMemory()` reports, each under its name. `compute` is what the inventory sums to.
    fn gpu_memory(&self, gpu: &Gpu) -> Vec<(&'static str, u64)> {
        let held = gpu.memory_use();
        let compute = gpu.inventory().rows().iter().map(|r| r.bytes).sum();
        vec![("compute", compute), ("upload", held.upload), ("readback", held.readback), ("reserved", held.reserved)]
    }

    /// The most recent timed frame, for `profiler.gpuFrame()`. Asking starts the timing.
    fn gpu_frame(&self, gpu: &mut Gpu) -> Option<Rc<GpuFrame>> {
        gpu.gpu_frame()
    }

    /// Creates a buffer that `owner` holds, for `substrate.createBuffer` and a shader's `createBuffer`. Its key.
    ///
    /// # Errors
    /// As [`Gpu::create_owned_buffer`].
    fn create_buffer(&self, gpu: &mut Gpu, owner: &str, name: &str, desc: BufferDesc) -> Result<String> {
        gpu.create_owned_buffer(owner, name, desc)
    }
}

/// The device's own answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceServices;

impl Services for DeviceServices {}

/// Script modules for `require`, beside the files in the script's folder and the built-in paths.
pub trait Modules {
    /// The source of a module.
    fn source(&self, path: &str) -> Option<Vec<u8>>;
}

/// No modules of the host's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoModules;

impl Modules for NoModules {
    fn source(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
}

/// How scripts are hosted.
pub struct ScriptOptions {
    /// Offer `fs.readFile`, and `require` of scripts, for files in this folder and below. Without it scripts see no
    /// files.
    pub files: Option<PathBuf>,
    /// Where assets come from. Only the built-in ones by default.
    pub assets: Box<dyn Assets>,
    /// Where meshes are kept.
    pub meshes: Box<dyn Meshes>,
    /// What answers for the device.
    pub services: Box<dyn Services>,
    /// Modules of the host's own.
    pub modules: Box<dyn Modules>,
}

impl Default for ScriptOptions {
    fn default() -> Self {
        Self {
            files: None,
            assets: Box::new(FolderAssets::new(Vec::new())),
            meshes: Box::<StoredMeshes>::default(),
            services: Box::new(DeviceServices),
            modules: Box::new(NoModules),
        }
    }
}

impl std::fmt::Debug for ScriptOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScriptOptions").field("files", &self.files).finish_non_exhaustive()
    }
}
