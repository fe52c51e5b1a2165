//! Textures, histories and samplers.

use super::Gpu;
use crate::error::{Error, Result};
use crate::readback::{Entry, ReadKey};
use crate::record::stale;
use crate::registry::{BufferId, SamplerId, TextureId};
use crate::texture::{Format, SamplerDesc, TextureDesc, TextureRole};

/// The samplers that are always there: name, linear filtering, clamped.
pub(super) const BUILT_IN_SAMPLERS: &[(&str, bool, bool)] =
    &[("linear_clamp", true, true), ("linear_repeat", true, false), ("nearest_clamp", false, true)];

impl Gpu {
    /// Allocates a texture under a name. Its texels are zero. A live one of that name and role is destroyed first.
    ///
    /// # Errors
    /// [`Error::Argument`] for a size of zero, an empty name, or a format that the device cannot use that way (with
    /// the feature it lacks and the nearest format it has); [`Error::Limit`]; [`Error::OutOfMemory`]. On any error
    /// nothing has changed.
    pub fn create_texture(&mut self, name: &str, desc: TextureDesc) -> Result<TextureId> {
        self.backend.check_lost()?;
        if name.is_empty() {
            return Err(Error::argument("name", "an empty string", "a name of at least one byte"));
        }
        self.recorder.check_texture(&desc)?;
        let texture = self.backend.create_texture(name, &desc)?;
        let (id, replaced) = self.recorder.add_texture(name, desc);
        self.backend.place_texture(id.index(), texture);
        if let Some(old) = replaced {
            self.release_texture(old);
        }
        Ok(id)
    }

    /// Destroys a texture, as [`Gpu::destroy_buffer`] does a buffer.
    ///
    /// # Errors
    /// [`Error::Stale`].
    pub fn destroy_texture(&mut self, id: TextureId) -> Result<()> {
        if self.release_texture(id) { Ok(()) } else { Err(stale("texture", id)) }
    }

    fn release_texture(&mut self, id: TextureId) -> bool {
        let removed = self.recorder.remove_texture(id);
        if removed {
            self.backend.discard_resource(id.index());
        }
        removed
    }

    /// Allocates two textures that take turns: what one frame writes as the current one, the next reads as the
    /// previous one. They flip at the end of every frame.
    ///
    /// # Errors
    /// As [`Gpu::create_texture`].
    pub fn create_history(&mut self, name: &str, desc: TextureDesc) -> Result<()> {
        let desc = TextureDesc { role: TextureRole::History, ..desc };
        let first = self.create_texture(name, desc)?;
        let second = match self.create_texture(name, desc) {
            Ok(id) => id,
            Err(error) => {
                self.release_texture(first);
                return Err(error);
            }
        };
        if let Some(old) = self.recorder.registry.histories.insert(name.into(), [first, second]) {
            for id in old {
                self.release_texture(id);
            }
        }
        Ok(())
    }

    /// Destroys a history. False when there is none of that name.
    pub fn destroy_history(&mut self, name: &str) -> bool {
        match self.recorder.registry.histories.remove(name) {
            Some(pair) => {
                for id in pair {
                    self.release_texture(id);
                }
                true
            }
            None => false,
        }
    }

    /// The textures of a history in the frame being recorded: current, previous.
    #[must_use]
    pub fn history(&self, name: &str) -> Option<(TextureId, TextureId)> {
        self.recorder.history(name)
    }

    /// The live texture of a name and role.
    #[must_use]
    pub fn find_texture(&self, role: TextureRole, name: &str) -> Option<TextureId> {
        let registry = &self.recorder.registry;
        match role {
            TextureRole::Volume => registry.volume_names.get(name).copied(),
            TextureRole::Target => registry.target_names.get(name).copied(),
            TextureRole::Cached => registry.cached_names.get(name).copied(),
            TextureRole::History => self.recorder.history(name).map(|(current, _)| current),
        }
    }

    /// What a texture was created as; `None` once it is destroyed.
    #[must_use]
    pub fn texture_desc(&self, id: TextureId) -> Option<TextureDesc> {
        self.recorder.texture(id).ok().map(|(_, desc)| desc)
    }

    /// Writes all texels of a texture, rows and slices without gaps; `fill` puts them straight into upload memory.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Argument`] when `size` is not the texture's, [`Error::OutOfMemory`], and whatever
    /// `fill` answers.
    pub fn write_texture_with<E: From<Error>>(
        &mut self,
        id: TextureId,
        size: u64,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.backend.check_lost()?;
        self.recorder.check_texture_write(id, size)?;
        // A multiple of every texel size and of 4.
        let slice = self.backend.stage(size, 16)?;
        let filled = match self.backend.staged_bytes(slice, size) {
            Ok(bytes) => fill(bytes),
            Err(error) => Err(error.into()),
        };
        match filled {
            Ok(()) => self.recorder.upload_texture(id, slice),
            Err(_) => self.backend.unstage(slice),
        }
        filled
    }

    /// Starts reading a whole texture back, rows and slices without gaps.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::OutOfMemory`].
    pub fn read_texture(&mut self, id: TextureId) -> Result<ReadKey> {
        self.backend.check_lost()?;
        let bytes = self.recorder.texture(id)?.1.bytes();
        let slice = self.backend.acquire_read(bytes)?;
        self.recorder.read_texture(id, slice);
        Ok(self.reads.issue(Entry { serial: self.backend.serial(), slice, bytes }))
    }

    /// Copies the start of a buffer over a 2D texture of the given shape, filed under `key`; the texture is made
    /// unless a live one of that key and shape can be written again.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Argument`] when the buffer is too small, and those of [`Gpu::create_texture`].
    pub fn copy_buffer_to_texture(&mut self, from: BufferId, key: &str, desc: TextureDesc) -> Result<TextureId> {
        let desc = TextureDesc { role: TextureRole::Cached, ..desc };
        self.recorder.check_copy(from, &desc)?;
        let live = self.find_texture(TextureRole::Cached, key).filter(|id| self.texture_desc(*id) == Some(desc));
        let to = match live {
            Some(id) => id,
            None => self.create_texture(key, desc)?,
        };
        self.recorder.copy_to_texture(from, to, desc.bytes());
        Ok(to)
    }

    /// Supplies the scene depth of the frames from now on: a 2D texture of format r32f, depth in the red channel,
    /// 1 at the near plane and 0 at the far one. `None` takes it back.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Argument`] for a texture of another shape.
    pub fn set_scene_depth(&mut self, depth: Option<TextureId>) -> Result<()> {
        if let Some(id) = depth {
            let (_, desc) = self.recorder.texture(id)?;
            if desc.is_3d() || desc.format != Format::R32f {
                let given = format!("a texture of {} texels", desc.format.name());
                return Err(Error::argument("depth", given, "a 2D texture of format r32f"));
            }
        }
        self.scene_depth = depth;
        Ok(())
    }

    /// The scene depth that the host has supplied, while it lives.
    #[must_use]
    pub fn scene_depth(&self) -> Option<TextureId> {
        self.scene_depth.filter(|id| self.recorder.texture(*id).is_ok())
    }

    /// Makes a sampler under a name. A live one of that name is destroyed first.
    ///
    /// # Errors
    /// [`Error::Argument`] for an empty name or that of a built-in sampler; [`Error::OutOfMemory`].
    pub fn create_sampler(&mut self, name: &str, desc: SamplerDesc) -> Result<SamplerId> {
        let built_in = BUILT_IN_SAMPLERS.iter().any(|(n, ..)| *n == name);
        if name.is_empty() || built_in {
            let names: Vec<&str> = BUILT_IN_SAMPLERS.iter().map(|(n, ..)| *n).collect();
            let accepted = format!("a name other than {}, which are always there", names.join(", "));
            return Err(Error::argument("name", format!("\"{name}\""), accepted));
        }
        self.add_sampler(name, desc, false)
    }

    pub(super) fn add_sampler(&mut self, name: &str, desc: SamplerDesc, built_in: bool) -> Result<SamplerId> {
        self.backend.check_lost()?;
        let sampler = self.backend.create_sampler(name, &desc)?;
        let (id, replaced) = self.recorder.add_sampler(name, desc, built_in);
        self.backend.place_sampler(id.index(), sampler);
        if let Some(old) = replaced {
            self.destroy_sampler(old);
        }
        Ok(id)
    }

    /// Destroys a sampler. False for a stale id, and for the samplers that are always there.
    pub fn destroy_sampler(&mut self, id: SamplerId) -> bool {
        let removed = self.recorder.remove_sampler(id);
        if removed {
            self.backend.discard_sampler(id.index());
        }
        removed
    }

    /// The live sampler of a name.
    #[must_use]
    pub fn find_sampler(&self, name: &str) -> Option<SamplerId> {
        self.recorder.registry.sampler_names.get(name).copied()
    }
}
