//! What is held on the device: one row a resource, and what became of the ones that are gone.
//!
//! A reading is published at the end of a frame in which a resource came or went, so it is whole and does not change
//! under a reader; a resource made in this very frame is in the next one.

use crate::registry::{Registry, Shape};
use crate::texture::{TextureDesc, TextureRole};
use hashbrown::HashMap;
use std::collections::VecDeque;

/// The one table of resource kinds.
macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident $name:literal;)*) => {
        /// What a row is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ResourceKind { $($(#[$doc])* $variant),* }

        impl ResourceKind {
            /// Every kind.
            pub const ALL: &'static [ResourceKind] = &[$(ResourceKind::$variant),*];
            /// Name as scripts see it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

kinds! {
    /// A storage buffer.
    Buffer "buffer";
    /// A uniform buffer of the library's own.
    UniformBuffer "uniformBuffer";
    /// A 3D texture.
    Texture3d "texture3d";
    /// A 2D storage texture, or one filled from a buffer.
    StorageTexture2d "storageTexture2d";
    /// The two textures of a history, in one row.
    TextureHistory "textureHistory";
    /// A sampler.
    Sampler "sampler";
}

/// The one table of reasons, sorted by name.
macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $name:literal;)*) => {
        /// Whether a key names something, and why not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Presence { $($(#[$doc])* $variant),* }

        impl Presence {
            /// Names of all, sorted.
            pub const NAMES: &'static [&'static str] = &[$($name),*];
            /// Name as scripts see it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }
    };
}

reasons! {
    /// It was there and was destroyed.
    Destroyed "destroyed";
    /// No resource ever had this key, as far back as is remembered.
    NeverKnown "neverKnown";
    /// It is there, and the next reading will show it.
    NotPublished "notPublished";
    /// It is there.
    Resident "resident";
    /// Its owner holds a later resource under the same name.
    Superseded "superseded";
}

/// Who asked for a resource: read off its key, `owner/name#serial`, or the key itself for a plain name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The owning shader or substrate; empty for a resource under a plain name.
    pub shader: String,
    /// The name it was created under.
    pub name: String,
    /// Counts creations.
    pub serial: u64,
}

/// Separates the owner in a key.
const OWNER: char = '/';
/// Separates the serial in a key.
const SERIAL: char = '#';

/// The key of a resource that `owner` creates under `name`.
#[must_use]
pub fn owned_key(owner: &str, name: &str, serial: u64) -> String {
    format!("{owner}{OWNER}{name}{SERIAL}{serial}")
}

/// Owner, name and serial of an owned key.
fn split_key(key: &str) -> Option<(&str, &str, u64)> {
    let (path, serial) = key.rsplit_once(SERIAL)?;
    let (owner, name) = path.split_once(OWNER)?;
    Some((owner, name, serial.parse().ok()?))
}

/// One resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceRow {
    /// What dispatches and reads name it by.
    pub key: String,
    /// What it is.
    pub kind: ResourceKind,
    /// Who asked for it.
    pub owner: Owner,
    /// Bytes of its contents.
    pub bytes: u64,
    /// Texels, for textures.
    pub format: Option<&'static str>,
    /// Width, height and depth, for textures.
    pub size: Option<[u32; 3]>,
    /// What it can be used for.
    pub usage: Vec<&'static str>,
    /// Frame it was created in.
    pub created_frame: u64,
}

/// Gone keys remembered at most.
const MOST_GONE: usize = 4096;

/// The published reading, and the memory of what is gone.
#[derive(Debug, Default)]
pub struct Inventory {
    rows: Vec<ResourceRow>,
    generation: u64,
    /// A resource came or went since the last reading.
    changed: bool,
    gone: HashMap<Box<str>, ()>,
    gone_order: VecDeque<Box<str>>,
}

impl Inventory {
    /// The rows of the last reading.
    #[must_use]
    pub fn rows(&self) -> &[ResourceRow] {
        &self.rows
    }

    /// Number of the last reading; 0 before the first.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether there is a reading at all.
    #[must_use]
    pub fn published(&self) -> bool {
        self.generation > 0
    }

    /// Notes that a resource was created.
    pub(crate) fn came(&mut self) {
        self.changed = true;
    }

    /// Notes that a resource was destroyed.
    pub(crate) fn went(&mut self, key: &str) {
        self.changed = true;
        if self.gone.insert(key.into(), ()).is_none() {
            self.gone_order.push_back(key.into());
        }
        if self.gone_order.len() > MOST_GONE
            && let Some(oldest) = self.gone_order.pop_front()
        {
            self.gone.remove(&oldest);
        }
    }

    /// Publishes a new reading if something changed, or if there is none yet. For the end of a frame.
    pub(crate) fn publish(&mut self, registry: &Registry) {
        if !std::mem::take(&mut self.changed) && self.published() {
            return;
        }
        self.rows = rows(registry);
        self.generation += 1;
    }

    /// Whether a key names something; the live key of the same owner and name when it names a former one.
    pub(crate) fn diagnose(&self, key: &str, registry: &Registry) -> (Presence, Option<String>) {
        if self.rows.iter().any(|r| r.key == key) {
            return (Presence::Resident, None);
        }
        if live(key, registry) {
            return (Presence::NotPublished, None);
        }
        if let Some((owner, name, _)) = split_key(key) {
            let same = |k: &&str| split_key(k).is_some_and(|(o, n, _)| o == owner && n == name);
            if let Some(current) = registry.buffer_names.keys().map(|k| &**k).find(same) {
                return (Presence::Superseded, Some(current.to_string()));
            }
        }
        let known = self.gone.contains_key(key);
        (if known { Presence::Destroyed } else { Presence::NeverKnown }, None)
    }
}

fn live(key: &str, r: &Registry) -> bool {
    r.buffer_names.contains_key(key)
        || r.volume_names.contains_key(key)
        || r.target_names.contains_key(key)
        || r.cached_names.contains_key(key)
        || r.histories.contains_key(key)
        || r.sampler_names.contains_key(key)
}

fn rows(registry: &Registry) -> Vec<ResourceRow> {
    let mut rows = Vec::new();
    for (id, resource) in registry.resources.iter::<()>() {
        let row = |kind, bytes, usage: &[&'static str]| ResourceRow {
            key: resource.name.to_string(),
            kind,
            owner: owner_of(&resource.name, resource.serial),
            bytes,
            format: None,
            size: None,
            usage: usage.to_vec(),
            created_frame: resource.created_frame,
        };
        match &resource.shape {
            Shape::Buffer(desc) => {
                let all = [
                    ("copyDst", true),
                    ("copySrc", desc.readback),
                    ("storage", true),
                    ("uniform", true),
                    ("vertex", desc.vertex),
                ];
                let usage: Vec<&str> = all.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect();
                rows.push(row(ResourceKind::Buffer, desc.size, &usage));
            }
            Shape::Texture(desc) => {
                // The second texture of a history is counted in the row of the first.
                let pair = registry.histories.get(&resource.name).filter(|_| desc.role == TextureRole::History);
                if pair.is_some_and(|p| p[1].index() == id.index()) {
                    continue;
                }
                let bytes = desc.bytes() * if pair.is_some() { 2 } else { 1 };
                let TextureDesc { width, height, depth, format, storage, .. } = *desc;
                let mut usage = vec!["copyDst", "copySrc", "sampled"];
                if storage {
                    usage.push("storage");
                }
                rows.push(ResourceRow {
                    format: Some(format.name()),
                    size: Some([width, height, depth]),
                    ..row(kind_of(desc.role), bytes, &usage)
                });
            }
        }
    }
    for (_, sampler) in registry.samplers.iter::<()>() {
        rows.push(ResourceRow {
            key: sampler.name.to_string(),
            kind: ResourceKind::Sampler,
            owner: owner_of(&sampler.name, 0),
            bytes: 0,
            format: None,
            size: None,
            usage: vec!["sampler"],
            created_frame: sampler.created_frame,
        });
    }
    rows.sort_by(|a, b| (a.kind, &a.key).cmp(&(b.kind, &b.key)));
    rows
}

fn kind_of(role: TextureRole) -> ResourceKind {
    match role {
        TextureRole::Volume => ResourceKind::Texture3d,
        TextureRole::Target | TextureRole::Cached => ResourceKind::StorageTexture2d,
        TextureRole::History => ResourceKind::TextureHistory,
    }
}

fn owner_of(key: &str, serial: u64) -> Owner {
    match split_key(key) {
        Some((shader, name, serial)) => Owner { shader: shader.to_owned(), name: name.to_owned(), serial },
        None => Owner { shader: String::new(), name: key.to_owned(), serial },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_their_owner() {
        let key = owned_key("a-guid", "cells/left#1", 7);
        assert_eq!(split_key(&key), Some(("a-guid", "cells/left#1", 7)));
        assert_eq!(split_key("plain"), None);
        assert_eq!(split_key("a/b#c"), None);
        assert_eq!(owner_of("plain", 3), Owner { shader: String::new(), name: "plain".into(), serial: 3 });
    }

    #[test]
    fn the_closed_sets_are_sorted_and_distinct() {
        assert!(Presence::NAMES.is_sorted_by(|a, b| a < b));
        let mut kinds: Vec<&str> = ResourceKind::ALL.iter().map(|k| k.name()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), ResourceKind::ALL.len());
    }

    #[test]
    fn gone_keys_are_forgotten_before_they_pile_up() {
        let mut inventory = Inventory::default();
        for i in 0..MOST_GONE + 10 {
            inventory.went(&format!("k{i}"));
            inventory.went(&format!("k{i}"));
        }
        let registry = Registry::default();
        assert_eq!(inventory.gone.len(), MOST_GONE);
        assert_eq!(inventory.diagnose("k0", &registry).0, Presence::NeverKnown);
        assert_eq!(inventory.diagnose("k5000", &registry).0, Presence::NeverKnown);
        assert_eq!(inventory.diagnose("k100", &registry).0, Presence::Destroyed);
    }
}
