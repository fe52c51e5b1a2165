//! Dispatches: what is bound is checked against what the program declares, then appended.

use super::{FormatSupport, Limits, Recorder, clear, stale};
use crate::arena::Arena;
use crate::command::{Bound, Clear, Dispatch, PARAMS_INLINE, Prepare, Uses};
use crate::error::{Error, Result};
use crate::registry::{Bind, BindingSlot, Program, ProgramId, ProgramState, Registry, Resident, Resource, Shape};
use crate::ring::Slice;
use crate::shader::BindingKind;
use crate::texture::Format;
use smallvec::SmallVec;

/// Bound so far.
#[derive(Default)]
struct Collected {
    bound: SmallVec<[Bound; 16]>,
    /// Ids of what is written, and of meshes.
    targets: SmallVec<[u64; 16]>,
    /// Whether something bound has never been touched.
    fresh: bool,
    /// First binding that does not fit, and the position of what was given for it.
    problem: Option<(usize, usize)>,
    /// Whether a sampler with linear filtering is bound.
    linear: bool,
}

impl Recorder {
    /// Records a dispatch, or counts it as a failure of its (program, target) pair and says why.
    ///
    /// `stage` places a parameter block that does not fit push constants; it is called at most once a program and
    /// frame while the block stays the same.
    pub fn dispatch(
        &mut self,
        id: ProgramId,
        binds: &[Bind],
        groups: [u32; 3],
        stage: impl FnOnce(&[u8]) -> Result<Slice>,
    ) -> Result<()> {
        let Self { arena, registry, ledger, limits, frame, staged, .. } = self;
        let program = registry.programs.get(id).ok_or_else(|| stale("program", id))?;
        let Some(resident) = &program.resident else {
            let error = not_resident(program);
            return Err(self.refuse_by_id(id, binds, error));
        };
        if binds.len() != resident.needed as usize {
            let error = Error::argument(
                "bindings",
                format!("{} resources", binds.len()),
                format!("{} for program \"{}\": {}", resident.needed, program.key, list(resident)),
            );
            return Err(self.refuse_by_id(id, binds, error));
        }
        let mut all = Collected::default();
        let mut rest = binds.iter().enumerate();
        for (n, slot) in resident.slots.iter().enumerate() {
            for (i, bind) in rest.by_ref().take(slot.count as usize) {
                collect(&mut all, (n, i), slot, bind, registry, limits)?;
            }
        }
        if all.targets.is_empty() {
            all.targets.extend(binds.iter().filter_map(target));
        }
        let over = (0..3).find(|&axis| groups[axis].wrapping_sub(1) >= limits.max_workgroups[axis]);
        if let Some(axis) = over {
            let error = bad_groups(axis, groups[axis], limits);
            return Err(self.refuse(id, &all.targets, error));
        }
        if let Some((n, i)) = all.problem {
            let first: u32 = resident.slots[..n].iter().map(|s| s.count).sum();
            let error = misfit(resident, n, i - first as usize, &binds[i], registry, limits);
            return Err(self.refuse(id, &all.targets, error));
        }
        if all.linear
            && let Some(error) = unfilterable(resident, binds, registry, limits)
        {
            return Err(self.refuse(id, &all.targets, error));
        }
        let params_staged = resident.params_staged();
        let (segment, offset) = if params_staged {
            let slice = match resident.staged {
                Some(slice) => slice,
                None => match stage(&resident.block) {
                    Ok(slice) => {
                        staged.push(id);
                        if let Some(resident) = registry.programs.get_mut(id).and_then(|p| p.resident.as_mut()) {
                            resident.staged = Some(slice);
                        }
                        slice
                    }
                    Err(error) => return Err(self.refuse(id, &all.targets, error)),
                },
            };
            (slice.segment, slice.offset as u32)
        } else {
            (PARAMS_INLINE, 0)
        };
        if all.fresh {
            for bind in binds {
                touch(arena, registry, bind);
            }
        }
        // The row's names are needed only when it is new; the registry lends them without the programs' contents.
        let row = ledger.row(id.to_bits(), &all.targets, registry);
        ledger.ran(row, *frame);
        let Some(resident) = registry.programs.get(id).and_then(|p| p.resident.as_ref()) else { return Ok(()) };
        let params: &[u8] = if params_staged { &[] } else { &resident.block };
        arena.push_dispatch(
            &Dispatch {
                program: id.index(),
                pipeline: resident.pipeline,
                groups,
                row,
                param_segment: segment,
                param_offset: offset,
                bindings: all.bound.len() as u32,
                param_bytes: params.len() as u32,
            },
            &all.bound,
            params,
        );
        Ok(())
    }

    /// Counts a refused dispatch whose program or resources are not there by name.
    pub fn refuse_by_name(&mut self, shader: &str, bound: &[&str], error: &Error) {
        let program = self.registry.program_names.get(shader).and_then(|id| self.registry.programs.get(*id));
        // Filed under what a good dispatch of the same names would write, as far as that can be told.
        let mut written: SmallVec<[&str; 8]> = SmallVec::new();
        if let Some(resident) = program.and_then(|p| p.resident.as_ref()) {
            written.extend(bound.iter().zip(resident.writes()).filter(|(_, writes)| *writes).map(|(name, _)| *name));
        }
        let target = if written.is_empty() { bound } else { &written };
        self.ledger.failed_by_name(shader, target, self.frame, &error.to_string());
    }

    #[cold]
    fn refuse(&mut self, id: ProgramId, targets: &[u64], error: Error) -> Error {
        let row = self.ledger.row(id.to_bits(), targets, &self.registry);
        self.ledger.failed(row, self.frame, &error.to_string());
        error
    }

    /// Counts a refused dispatch whose written resources cannot be told.
    #[cold]
    fn refuse_by_id(&mut self, id: ProgramId, binds: &[Bind], error: Error) -> Error {
        let key = self.registry.programs.get(id).map(|p| p.key.clone()).unwrap_or_default();
        let mesh = binds.iter().find_map(|b| mesh_of(&self.registry, b));
        let names: Vec<String> = match mesh {
            Some(mesh) => vec![mesh.to_owned()],
            None => binds.iter().map(|b| name_of(&self.registry, b).to_owned()).collect(),
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.refuse_by_name(&key, &names, &error);
        error
    }
}

/// Takes one bound resource in. Cost in the common case: one pool look-up and a few compares.
#[inline]
fn collect(
    all: &mut Collected,
    at: (usize, usize),
    slot: &BindingSlot,
    bind: &Bind,
    Registry { resources, samplers, .. }: &Registry,
    limits: &Limits,
) -> Result<()> {
    // A dispatch over a mesh is told by the mesh, also where it only reads it.
    let (index, fits, fresh, names) = match bind {
        Bind::Buffer(id) => {
            let found = resources.get(*id).ok_or_else(|| stale("buffer", *id))?;
            (id.index(), buffer_fits(slot, found, limits), found.fresh, found.mesh.is_some())
        }
        Bind::Texture(id) => {
            let found = resources.get(*id).ok_or_else(|| stale("texture", *id))?;
            (id.index(), texture_fits(slot, found, limits), found.fresh, false)
        }
        Bind::Sampler(id) => {
            all.linear |= samplers.get(*id).ok_or_else(|| stale("sampler", *id))?.desc.filter;
            (id.index(), slot.kind == BindingKind::Sampler, false, false)
        }
    };
    if !fits {
        all.problem.get_or_insert(at);
    }
    all.fresh |= fresh;
    if names || !slot.uses.writes().is_none() {
        all.targets.extend(target(bind));
    }
    all.bound.push(Bound::new(index, slot.uses));
    Ok(())
}

fn target(bind: &Bind) -> Option<u64> {
    match bind {
        Bind::Buffer(id) => Some(id.to_bits()),
        Bind::Texture(id) => Some(id.to_bits()),
        Bind::Sampler(_) => None,
    }
}

fn buffer_fits(slot: &BindingSlot, found: &Resource, limits: &Limits) -> bool {
    let Some(desc) = found.buffer() else { return false };
    let most = match slot.kind {
        BindingKind::StorageBuffer => limits.max_storage_range,
        BindingKind::UniformBuffer => limits.max_uniform_range,
        _ => return false,
    };
    (slot.min_bytes..=most).contains(&desc.size)
}

fn texture_fits(slot: &BindingSlot, found: &Resource, limits: &Limits) -> bool {
    let Some(desc) = found.texture() else { return false };
    match slot.kind {
        BindingKind::Texture2d => !desc.is_3d() && support(limits, found).sampled,
        BindingKind::Texture3d => desc.is_3d() && support(limits, found).sampled,
        BindingKind::Storage2d => !desc.is_3d() && desc.storage && slot.format == Some(desc.format),
        BindingKind::Storage3d => desc.is_3d() && desc.storage && slot.format == Some(desc.format),
        _ => false,
    }
}

fn support(limits: &Limits, found: &Resource) -> FormatSupport {
    found.texture().map_or(FormatSupport::default(), |desc| limits.formats[desc.format as usize])
}

/// Gives a bound resource that nothing has touched its zeros.
fn touch(arena: &mut Arena, registry: &mut Registry, bind: &Bind) {
    let found = match bind {
        Bind::Buffer(id) => registry.resources.get_mut(*id).map(|r| (id.index(), r)),
        Bind::Texture(id) => registry.resources.get_mut(*id).map(|r| (id.index(), r)),
        Bind::Sampler(_) => None,
    };
    let Some((index, resource)) = found else { return };
    if !std::mem::take(&mut resource.fresh) {
        return;
    }
    match resource.shape {
        Shape::Buffer(desc) => clear(arena, index, desc.size),
        Shape::Texture(_) => {
            arena.push(&Prepare { texture: index, pad: 0 });
            arena.push(&Clear { texture: index, pad: 0 });
        }
    }
}

fn mesh_of<'a>(registry: &'a Registry, bind: &Bind) -> Option<&'a str> {
    match bind {
        Bind::Buffer(id) => registry.resources.get(*id)?.mesh.as_deref(),
        Bind::Texture(_) | Bind::Sampler(_) => None,
    }
}

fn name_of<'a>(registry: &'a Registry, bind: &Bind) -> &'a str {
    let found = match bind {
        Bind::Buffer(id) => registry.resources.get(*id).map(|r| &*r.name),
        Bind::Texture(id) => registry.resources.get(*id).map(|r| &*r.name),
        Bind::Sampler(id) => registry.samplers.get(*id).map(|s| &*s.name),
    };
    found.unwrap_or("(destroyed)")
}

fn not_resident(program: &Program) -> Error {
    let key = &program.key;
    Error::Shader(match program.state {
        ProgramState::Failed => {
            let why = program.error.as_deref().unwrap_or("no reason was given");
            format!("program \"{key}\" failed to compile: {why}")
        }
        _ => format!("program \"{key}\" is still being compiled: wait until programState answers \"ready\""),
    })
}

fn list(resident: &Resident) -> String {
    let names: Vec<String> = resident
        .bindings
        .iter()
        .map(|b| match b.count {
            1 => format!("{} ({})", b.name, b.kind.registered_name()),
            n => format!("{} ({n} of {})", b.name, b.kind.registered_name()),
        })
        .collect();
    format!("[{}]", names.join(", "))
}

fn bad_groups(axis: usize, given: u32, limits: &Limits) -> Error {
    Error::argument(
        format!("workgroups[{}]", axis + 1),
        given,
        format!("1 to {} ({} axis of {})", limits.max_workgroups[axis], ["x", "y", "z"][axis], limits.device),
    )
}

/// The path of a binding in messages: its number and name, and the element of an array.
fn path(resident: &Resident, n: usize, element: usize) -> String {
    let (number, name) = (resident.bindings[n].binding, &resident.bindings[n].name);
    match resident.slots[n].count {
        1 => format!("binding {number} \"{name}\""),
        _ => format!("binding {number} \"{name}\"[{element}]"),
    }
}

/// Why a texture is not to be read through the sampler that the program reads it through: it has no linear filtering
/// on this device.
fn unfilterable(resident: &Resident, binds: &[Bind], registry: &Registry, limits: &Limits) -> Option<Error> {
    resident.sampled.iter().find_map(|pair| {
        let linear = binds[pair.samplers.clone()].iter().find_map(|bind| match bind {
            Bind::Sampler(id) => registry.samplers.get(*id).filter(|s| s.desc.filter),
            _ => None,
        })?;
        let textures = binds[pair.textures.clone()].iter().filter_map(|bind| match bind {
            Bind::Texture(id) => registry.resources.get(*id),
            _ => None,
        });
        let (element, texture) = textures.enumerate().find(|(_, texture)| !support(limits, texture).linear)?;
        let format = texture.texture()?.format;
        let n = resident.slots.iter().scan(0, |at, s| Some(std::mem::replace(at, *at + s.count as usize)));
        let n = n.take_while(|at| *at <= pair.textures.start).count() - 1;
        let filtered: Vec<&str> =
            Format::ALL.iter().filter(|f| limits.formats[**f as usize].linear).map(|f| f.name()).collect();
        Some(Error::argument(
            path(resident, n, element),
            format!("texture \"{}\" ({}) with the linear sampler \"{}\"", texture.name, format.name(), linear.name),
            format!("a sampler without filter, or a format that {} filters: {}", limits.device, filtered.join(", ")),
        ))
    })
}

/// Why a resource does not fit a binding.
fn misfit(resident: &Resident, n: usize, element: usize, bind: &Bind, registry: &Registry, limits: &Limits) -> Error {
    let slot = &resident.slots[n];
    let name = name_of(registry, bind);
    let resource = match bind {
        Bind::Buffer(id) => registry.resources.get(*id),
        Bind::Texture(id) => registry.resources.get(*id),
        Bind::Sampler(_) => None,
    };
    let given = match resource.map(|r| &r.shape) {
        Some(Shape::Buffer(desc)) => format!("buffer \"{name}\" of {} bytes", desc.size),
        Some(Shape::Texture(desc)) => {
            let dimension = if desc.is_3d() { "3D" } else { "2D" };
            let storage = if desc.storage { ", storage" } else { "" };
            format!("{dimension} texture \"{name}\" ({}{storage})", desc.format.name())
        }
        None => format!("sampler \"{name}\""),
    };
    let device = &limits.device;
    let accepted = match slot.kind {
        BindingKind::StorageBuffer => {
            format!(
                "a buffer of {} to {} bytes (the storage range of {device})",
                slot.min_bytes, limits.max_storage_range
            )
        }
        BindingKind::UniformBuffer => {
            format!(
                "a buffer of {} to {} bytes (the uniform range of {device})",
                slot.min_bytes, limits.max_uniform_range
            )
        }
        BindingKind::Texture2d => "a 2D texture".to_owned(),
        BindingKind::Texture3d => "a 3D texture".to_owned(),
        BindingKind::Storage2d | BindingKind::Storage3d => format!(
            "a {} storage texture of format {}",
            if slot.kind == BindingKind::Storage2d { "2D" } else { "3D" },
            slot.format.map_or("", crate::texture::Format::name)
        ),
        BindingKind::Sampler => "a sampler".to_owned(),
    };
    Error::argument(path(resident, n, element), given, accepted)
}

/// [`Bound`] has six bits for the uses.
const _: () = assert!(Uses::COUNT <= 6, "Bound packs six use bits");
