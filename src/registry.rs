//! Names and ids of buffers and programs, and what is known of each without asking the device.

use crate::command::Uses;
use crate::handle::{Id, Pool};
use crate::inspect::RowNames;
use crate::ring::Slice;
use crate::shader::{Binding, BindingKind, ParamDecl, ParamLayout, ParamPlacement};
use hashbrown::HashMap;
use smallvec::SmallVec;

/// Marker of buffer ids.
#[derive(Debug)]
pub enum BufferKind {}
/// Marker of program ids.
#[derive(Debug)]
pub enum ProgramKind {}

/// Names a buffer.
pub type BufferId = Id<BufferKind>;
/// Names a program.
pub type ProgramId = Id<ProgramKind>;

/// What a buffer is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferDesc {
    /// Bytes; a positive multiple of 4.
    pub size: u64,
    /// Whether it may be read back. On by default.
    pub readback: bool,
}

impl BufferDesc {
    /// A buffer of `size` bytes that can be bound, written and read.
    #[must_use]
    pub const fn new(size: u64) -> Self {
        Self { size, readback: true }
    }
}

/// A live buffer.
#[derive(Debug)]
pub struct Buffer {
    /// The name it was created under.
    pub name: Box<str>,
    /// What it was created as.
    pub desc: BufferDesc,
    /// Frame it was created in.
    pub created_frame: u64,
    /// Nothing has touched it yet: its bytes are undefined until the fill that its first use brings along.
    pub(crate) fresh: bool,
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
    pub uses: Uses,
    pub uniform: bool,
    pub min_bytes: u64,
}

/// A program that dispatches bind.
#[derive(Debug)]
pub(crate) struct Resident {
    /// Slot of the backend's pipeline.
    pub pipeline: u32,
    pub slots: SmallVec<[BindingSlot; 8]>,
    pub bindings: Vec<Binding>,
    pub params: ParamLayout,
    /// Current parameter bytes.
    pub block: Vec<u8>,
    /// Where this frame's copy of a block lies that is too large for push constants.
    pub staged: Option<Slice>,
    pub workgroup_size: [u32; 3],
}

impl Resident {
    pub fn new(pipeline: u32, bindings: Vec<Binding>, params: ParamLayout, workgroup_size: [u32; 3]) -> Self {
        let slots = bindings.iter().map(slot).collect();
        let block = params.defaults.clone();
        Self { pipeline, slots, bindings, params, block, staged: None, workgroup_size }
    }

    pub fn params_staged(&self) -> bool {
        matches!(self.params.placement, ParamPlacement::Uniform { .. })
    }
}

fn slot(binding: &Binding) -> BindingSlot {
    let uniform = matches!(binding.kind, BindingKind::UniformBuffer);
    let mut uses = Uses::NONE;
    if binding.access.read {
        uses = uses.with(if uniform { Uses::UNIFORM_READ } else { Uses::SHADER_READ });
    }
    if binding.access.write {
        uses = uses.with(Uses::SHADER_WRITE);
    }
    BindingSlot { uses, uniform, min_bytes: binding.min_bytes }
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
    /// Whether the latest request can have parameters at all.
    pub takes_params: bool,
    pub set: Vec<SetParam>,
}

/// Everything with a name.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub buffers: Pool<Buffer>,
    pub buffer_names: HashMap<Box<str>, BufferId>,
    pub programs: Pool<Program>,
    pub program_names: HashMap<Box<str>, ProgramId>,
    /// Parameters set under keys that no program has yet.
    pub early: HashMap<Box<str>, Vec<SetParam>>,
}

/// Keys in [`Registry::early`]; one more is refused, so that mistyped keys do not pile up.
pub(crate) const MAX_EARLY_KEYS: usize = 1024;

impl RowNames for Registry {
    fn program(&self, id: u64) -> String {
        self.programs.get(ProgramId::from_bits(id)).map_or_else(String::new, |p| p.key.to_string())
    }
    fn buffer(&self, id: u64) -> String {
        self.buffers.get(BufferId::from_bits(id)).map_or_else(|| "(destroyed)".to_owned(), |b| b.name.to_string())
    }
}

/// Keeps the latest value of each (name, component).
pub(crate) fn remember(list: &mut Vec<SetParam>, name: &str, component: usize, value: f64) {
    match list.iter_mut().find(|s| *s.name == *name && s.component == component) {
        Some(slot) => slot.value = value,
        None => list.push(SetParam { name: name.into(), component, value }),
    }
}
