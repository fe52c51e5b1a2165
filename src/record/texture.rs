//! Textures and samplers: creation, transfers, names.

use super::{Recorder, stale};
use crate::command::{Clear, CopyToTexture, Fill, Prepare, ReadTexture, UploadTexture};
use crate::error::{Error, Result};
use crate::registry::{BufferId, Resource, Sampler, SamplerId, Shape, TextureId};
use crate::ring::Slice;
use crate::texture::{Format, SamplerDesc, TextureDesc};

impl Recorder {
    /// Checks sizes against the device's limits and the format against what it can do.
    pub fn check_texture(&self, desc: &TextureDesc) -> Result<()> {
        let limits = &self.limits;
        let most = if desc.is_3d() { limits.max_texture_3d } else { limits.max_texture_2d };
        let axes = [("width", desc.width), ("height", desc.height), ("depth", desc.depth)];
        for (field, given) in axes {
            if given == 0 {
                return Err(Error::argument(field, given, format!("a whole number from 1 to {most}")));
            }
            if given > most {
                let (what, device) = (field.to_owned(), limits.device.clone());
                return Err(Error::Limit { what, given: given.into(), limit: most.into(), device });
            }
        }
        let usable = |f: &Format| {
            let support = limits.formats[*f as usize];
            support.sampled && (support.storage || !desc.storage)
        };
        if usable(&desc.format) {
            return Ok(());
        }
        // Nearest: as many channels, then as few bytes as hold the same values.
        let nearest = Format::ALL
            .iter()
            .filter(|f| usable(f))
            .min_by_key(|f| (f.channels() != desc.format.channels(), f.bytes() < desc.format.bytes(), f.bytes()));
        let (lacks, feature) = match (desc.storage, limits.formats[desc.format as usize].sampled) {
            (true, true) => ("used as a storage texture", "STORAGE_IMAGE"),
            _ => ("sampled", "SAMPLED_IMAGE"),
        };
        Err(Error::argument(
            "format",
            format!("\"{}\"", desc.format.name()),
            match nearest {
                Some(f) => format!(
                    "a format that can be {lacks} on {} ({feature} is missing); \"{}\" is the nearest",
                    limits.device,
                    f.name()
                ),
                None => format!("no format: {} can use none that way", limits.device),
            },
        ))
    }

    /// Names a texture. Returns the live one of that name and role, which has lost it.
    pub fn add_texture(&mut self, name: &str, desc: TextureDesc) -> (TextureId, Option<TextureId>) {
        let id = self.add_resource(name, Shape::Texture(desc));
        let names = self.registry.texture_names(desc.role);
        (id, names.and_then(|names| names.insert(name.into(), id)))
    }

    pub fn texture(&self, id: TextureId) -> Result<(&Resource, TextureDesc)> {
        let found = self.registry.resources.get(id).and_then(|r| Some((r, *r.texture()?)));
        found.ok_or_else(|| stale("texture", id))
    }

    /// Takes a texture out of the registry.
    pub fn remove_texture(&mut self, id: TextureId) -> bool {
        let Ok((resource, desc)) = self.texture(id) else { return false };
        let name = resource.name.clone();
        self.registry.resources.remove(id);
        if let Some(names) = self.registry.texture_names(desc.role)
            && names.get(&name) == Some(&id)
        {
            names.remove(&name);
        }
        self.ledger.forget_buffer(id);
        self.inventory.went(&name);
        true
    }

    /// The textures of a history in this frame: the one that is written, and the one written in the frame before.
    pub fn history(&self, name: &str) -> Option<(TextureId, TextureId)> {
        let pair = self.registry.histories.get(name)?;
        let now = (self.frame % 2) as usize;
        Some((pair[now], pair[1 - now]))
    }

    pub fn check_texture_write(&self, id: TextureId, bytes: u64) -> Result<()> {
        let (_, desc) = self.texture(id)?;
        if bytes != desc.bytes() {
            let TextureDesc { width, height, depth, format, .. } = desc;
            return Err(Error::argument(
                "data",
                format!("{bytes} bytes"),
                format!("{} bytes: {width} x {height} x {depth} texels of {}", desc.bytes(), format.name()),
            ));
        }
        Ok(())
    }

    /// Brings a texture that nothing has touched into its layout. `overwritten` says that it needs no zeros.
    fn prepare(&mut self, id: TextureId, overwritten: bool) {
        let Some(texture) = self.registry.resources.get_mut(id) else { return };
        if std::mem::take(&mut texture.fresh) {
            self.arena.push(&Prepare { texture: id.index(), pad: 0 });
            if !overwritten {
                self.arena.push(&Clear { texture: id.index(), pad: 0 });
            }
        }
    }

    /// Appends an upload over the whole texture.
    pub fn upload_texture(&mut self, id: TextureId, from: Slice) {
        self.prepare(id, true);
        self.arena.push(&UploadTexture { texture: id.index(), segment: from.segment, source: from.offset });
    }

    /// Appends a copy of the whole texture to a readback slice.
    pub fn read_texture(&mut self, id: TextureId, to: Slice) {
        self.prepare(id, false);
        self.arena.push(&ReadTexture { texture: id.index(), segment: to.segment, destination: to.offset });
    }

    pub fn check_copy(&self, from: BufferId, desc: &TextureDesc) -> Result<()> {
        let (buffer, buffer_desc) = self.buffer(from)?;
        if buffer_desc.size < desc.bytes() {
            return Err(Error::argument(
                "bufferName",
                format!("\"{}\" of {} bytes", buffer.name, buffer_desc.size),
                format!(
                    "a buffer of at least {} bytes: {} x {} texels of {}",
                    desc.bytes(),
                    desc.width,
                    desc.height,
                    desc.format.name()
                ),
            ));
        }
        Ok(())
    }

    /// Appends a copy of the buffer's start over the whole texture.
    pub fn copy_to_texture(&mut self, from: BufferId, to: TextureId, bytes: u64) {
        let Some(buffer) = self.registry.resources.get_mut(from) else { return };
        if std::mem::take(&mut buffer.fresh) {
            let size = buffer.buffer().map_or(0, |desc| desc.size);
            self.arena.push(&Fill { buffer: from.index(), value: 0, offset: 0, size });
        }
        self.prepare(to, true);
        self.arena.push(&CopyToTexture { buffer: from.index(), texture: to.index(), size: bytes });
    }

    /// Names a sampler. Returns the live one of that name, which has lost it.
    pub fn add_sampler(&mut self, name: &str, desc: SamplerDesc, built_in: bool) -> (SamplerId, Option<SamplerId>) {
        self.inventory.came();
        let sampler = Sampler { name: name.into(), desc, built_in, created_frame: self.frame };
        let id = self.registry.samplers.insert(sampler);
        (id, self.registry.sampler_names.insert(name.into(), id))
    }

    /// Takes a sampler out of the registry. False for one of those that are always there.
    pub fn remove_sampler(&mut self, id: SamplerId) -> bool {
        match self.registry.samplers.get(id) {
            Some(sampler) if !sampler.built_in => {}
            _ => return false,
        }
        if let Some(sampler) = self.registry.samplers.remove(id) {
            if self.registry.sampler_names.get(&sampler.name) == Some(&id) {
                self.registry.sampler_names.remove(&sampler.name);
            }
            self.inventory.went(&sampler.name);
        }
        true
    }
}
