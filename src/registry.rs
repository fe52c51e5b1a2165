//! Names and ids of buffers and programs, and what is known of each without asking the device.

use crate::command::Uses;
use crate::handle::{Id, Pool};
use crate::inspect::RowNames;
use crate::ring::Slice;
use crate::shader::{Binding, BindingKind, ParamDecl, ParamLayout, ParamPlacement};
use crate::texture::{Format, SamplerDesc, TextureDesc, TextureRole};
use hashbrown::HashMap;
use smallvec::SmallVec;
use std::ops::Range;

/// Marker of buffer ids.
#[derive(Debug)]
pub enum BufferKind {}
/// Marker of texture ids.
#[derive(Debug)]
pub enum TextureKind {}
/// Marker of sampler ids.
#[derive(Debug)]
pub enum SamplerKind {}
/// Marker of program ids.
#[derive(Debug)]
pub enum ProgramKind {}

/// Names a buffer.
pub type BufferId = Id<BufferKind>;
/// Names a texture.
pub type TextureId = Id<TextureKind>;
/// Names a sampler.
pub type SamplerId = Id<SamplerKind>;
/// Names a program.
pub type ProgramId = Id<ProgramKind>;

/// What a buffer is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferDesc {
    /// Bytes; a positive multiple of 4.
    pub size: u64,
    /// Whether it may be read back. On by default.
    pub readback: bool,
    /// Whether a renderer may draw its contents as vertices. Off by default.
    pub vertex: bool,
}

impl BufferDesc {
    /// A buffer of `size` bytes that can be bound, written and read.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self { size, readback: true, vertex: false }
    }
}

/// What a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A buffer.
    Buffer(BufferDesc),
    /// A texture.
    Texture(TextureDesc),
}

/// A live buffer or texture.
#[derive(Debug)]
pub struct Resource {
    /// The name it was created under.
    pub name: Box<str>,
    /// What it is.
    pub shape: Shape,
    /// Counts creations: a resource made later under the same name has a higher one.
    pub serial: u64,
    /// Frame it was created in.
    pub created_frame: u64,
    /// The mesh whose vertices it holds: what reports call it as a dispatch's target.
    pub mesh: Option<Box<str>>,
    /// Nothing has touched it yet: its bytes are undefined until the fill that its first use brings along.
    pub(crate) fresh: bool,
}

impl Resource {
    /// The buffer's description, if it is one.
    #[must_use]
    pub const fn buffer(&self) -> Option<&BufferDesc> {
        match &self.shape {
            Shape::Buffer(desc) => Some(desc),
            Shape::Texture(_) => None,
        }
    }

    /// The texture's description, if it is one.
    #[must_use]
    pub const fn texture(&self) -> Option<&TextureDesc> {
        match &self.shape {
            Shape::Texture(desc) => Some(desc),
            Shape::Buffer(_) => None,
        }
    }
}

/// A live sampler.
#[derive(Debug)]
pub struct Sampler {
    /// The name it was created under.
    pub name: Box<str>,
    /// How it reads.
    pub desc: SamplerDesc,
    /// One of the samplers that are always there.
    pub built_in: bool,
    /// Frame it was created in.
    pub created_frame: u64,
}

/// What a dispatch binds to one binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bind {
    /// A buffer.
    Buffer(BufferId),
    /// A texture.
    Texture(TextureId),
    /// A sampler.
    Sampler(SamplerId),
}

/// Where a program stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProgramState {
    /// Nothing is known under this key.
    Absent,
    /// Asked for, not on the device yet. A resident program from before is still what a dispatch binds.
    Pending,
    /// Compiled and resident.
    Ready,
    /// The most recent request produced no program. A resident program from before is still bound.
    Failed,
}

impl ProgramState {
    /// The state's name as scripts see it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Pending => "pending",
            Self::Ready => "ready",
            Self::Failed => "failed",
        }
    }
}

/// One binding of a resident program, as much of it as a dispatch looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BindingSlot {
    pub kind: BindingKind,
    pub uses: Uses,
    pub min_bytes: u64,
    pub format: Option<Format>,
    pub count: u32,
}

/// A program that dispatches bind.
#[derive(Debug)]
pub(crate) struct Resident {
    /// Slot of the backend's pipeline.
    pub pipeline: u32,
    pub slots: SmallVec<[BindingSlot; 8]>,
    /// Resources that a dispatch binds: one a binding, more for arrays.
    pub needed: u32,
    pub bindings: Vec<Binding>,
    /// Textures and the samplers they are read through.
    pub sampled: SmallVec<[Sampled; 2]>,
    pub params: ParamLayout,
    /// Current parameter bytes.
    pub block: Vec<u8>,
    /// Where this frame's copy of a block lies that is too large for push constants.
    pub staged: Option<Slice>,
    pub workgroup_size: [u32; 3],
}

/// Positions among the resources that a dispatch binds. A binding that is an array takes several in a row.
#[derive(Clone, Debug)]
pub(crate) struct Sampled {
    pub textures: Range<usize>,
    pub samplers: Range<usize>,
}

impl Resident {
    /// `sampled` has the numbers of a texture's and a sampler's binding that are read together.
    pub fn new(
        pipeline: u32,
        bindings: Vec<Binding>,
        sampled: &[[u32; 2]],
        params: ParamLayout,
        workgroup_size: [u32; 3],
    ) -> Self {
        let slots: SmallVec<[BindingSlot; 8]> = bindings.iter().map(slot).collect();
        let needed = slots.iter().map(|s| s.count).sum();
        let block = params.defaults.clone();
        let range = |binding: u32| {
            let counts = |n: usize| slots.iter().take(n).map(|s| s.count as usize).sum::<usize>();
            counts(binding as usize)..counts(binding as usize + 1)
        };
        let sampled = sampled.iter().map(|[t, s]| Sampled { textures: range(*t), samplers: range(*s) }).collect();
        Self { pipeline, sampled, slots, needed, bindings, params, block, staged: None, workgroup_size }
    }

    /// Whether each resource that a dispatch binds is written, in the order bound.
    pub fn writes(&self) -> impl Iterator<Item = bool> {
        self.slots.iter().flat_map(|s| std::iter::repeat_n(!s.uses.writes().is_none(), s.count as usize))
    }

    pub fn params_staged(&self) -> bool {
        matches!(self.params.placement, ParamPlacement::Uniform { .. })
    }
}

fn slot(binding: &Binding) -> BindingSlot {
    let Binding { kind, access, min_bytes, format, count, .. } = *binding;
    let mut uses = Uses::NONE;
    if access.read {
        uses = uses.with(match kind {
            BindingKind::UniformBuffer => Uses::UNIFORM_READ,
            BindingKind::Texture2d | BindingKind::Texture3d => Uses::SAMPLED_READ,
            BindingKind::Sampler => Uses::NONE,
            _ => Uses::SHADER_READ,
        });
    }
    if access.write {
        uses = uses.with(Uses::SHADER_WRITE);
    }
    BindingSlot { kind, uses, min_bytes, format, count }
}

/// One parameter value that was set by hand; outlives recompiles.
#[derive(Clone, Debug)]
pub(crate) struct SetParam {
    pub name: Box<str>,
    pub component: usize,
    pub value: f64,
}

/// A live program.
#[derive(Debug)]
pub(crate) struct Program {
    pub key: Box<str>,
    pub state: ProgramState,
    pub error: Option<String>,
    /// Number of the latest request; answers to earlier ones are out of date.
    pub request: u64,
    pub resident: Option<Resident>,
    /// Parameters declared by the latest request, known before it is compiled.
    pub declared: Vec<ParamDecl>,
    pub set: Vec<SetParam>,
}

/// Everything with a name.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// Buffers and textures: one pool, so that a slot names one thing in commands and plans.
    pub resources: Pool<Resource>,
    pub buffer_names: HashMap<Box<str>, BufferId>,
    pub volume_names: HashMap<Box<str>, TextureId>,
    pub target_names: HashMap<Box<str>, TextureId>,
    pub cached_names: HashMap<Box<str>, TextureId>,
    /// The two textures of each history; which one is current follows the frame's number.
    pub histories: HashMap<Box<str>, [TextureId; 2]>,
    pub samplers: Pool<Sampler>,
    pub sampler_names: HashMap<Box<str>, SamplerId>,
    pub programs: Pool<Program>,
    pub program_names: HashMap<Box<str>, ProgramId>,
    /// Parameters set under keys that no program has yet.
    pub early: HashMap<Box<str>, Vec<SetParam>>,
}

/// Keys in [`Registry::early`]; one more is refused, so that mistyped keys do not pile up.
pub(crate) const MAX_EARLY_KEYS: usize = 1024;

impl Registry {
    /// The names of textures of a role; histories have a table of their own.
    pub fn texture_names(&mut self, role: TextureRole) -> Option<&mut HashMap<Box<str>, TextureId>> {
        match role {
            TextureRole::Volume => Some(&mut self.volume_names),
            TextureRole::Target => Some(&mut self.target_names),
            TextureRole::Cached => Some(&mut self.cached_names),
            TextureRole::History => None,
        }
    }
}

impl RowNames for Registry {
    fn program(&self, id: u64) -> String {
        self.programs.get(ProgramId::from_bits(id)).map_or_else(String::new, |p| p.key.to_string())
    }
    fn buffer(&self, id: u64) -> String {
        self.resources.get(BufferId::from_bits(id)).map_or_else(|| "(destroyed)".to_owned(), |r| r.name.to_string())
    }
    fn mesh(&self, id: u64) -> Option<String> {
        self.resources.get(BufferId::from_bits(id))?.mesh.as_deref().map(str::to_owned)
    }
}

/// Keeps the latest value of each (name, component).
pub(crate) fn remember(list: &mut Vec<SetParam>, name: &str, component: usize, value: f64) {
    match list.iter_mut().find(|s| *s.name == *name && s.component == component) {
        Some(slot) => slot.value = value,
        None => list.push(SetParam { name: name.into(), component, value }),
    }
}
