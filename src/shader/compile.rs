//! From source to SPIR-V, bindings and parameter layout.

use super::report::{ShaderError, Stage, Text};
use super::schema::{
    Access, Binding, BindingDecl, BindingKind, DeclaredAccess, Interface, ParamDecl, ParamField, ParamLayout,
    ParamPlacement, ProgramSource, Target,
};
use super::{capabilities, front, guard};
use crate::texture::Format;
use naga::back::spv;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{
    Capabilities, GlobalUse, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator,
};
use naga::{
    AddressSpace, ArraySize, GlobalVariable, Handle, ImageClass, ImageDimension, Module, ScalarKind, ShaderStage, Span,
    StorageFormat, TypeInner,
};
use std::ops::Range;

/// A compiled program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// SPIR-V words.
    pub spirv: Vec<u32>,
    /// Name of the entry point in it.
    pub entry_point: String,
    /// Bindings of group 0, numbered without gaps.
    pub bindings: Vec<Binding>,
    /// Bindings that are read together: a texture's number and its sampler's, in ascending order.
    pub sampled: Vec<[u32; 2]>,
    /// The parameter block.
    pub params: ParamLayout,
    /// Invocations of one workgroup, per axis.
    pub workgroup_size: [u32; 3],
}

/// The checks that generated code carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Safety {
    /// Indices into local and workgroup arrays, vectors and matrices are clamped.
    pub index: bool,
    /// Buffer accesses are clamped in code. Not needed where the device does it.
    pub buffer: bool,
    /// Loops are bounded, so that an endless one is defined behaviour.
    pub loops: bool,
    /// Workgroup memory starts as zeros.
    pub zero_workgroup: bool,
    /// Division by zero and overflow of the smallest integer are defined.
    pub division: bool,
}

impl Default for Safety {
    /// Every check, whatever the device does itself.
    fn default() -> Self {
        Self { index: true, buffer: true, loops: true, zero_workgroup: true, division: true }
    }
}

impl Safety {
    /// Everything that the device does not do itself.
    #[must_use]
    pub fn for_target(target: &Target) -> Self {
        Self { buffer: !target.robust_buffer_access2, ..Self::default() }
    }
}

/// Compiles a program for a device.
///
/// # Errors
/// Why the source is no program for this device, with the place in the author's text.
pub fn compile(p: &ProgramSource, target: &Target) -> Result<Compiled, ShaderError> {
    let generated = Generated::new(p, target);
    let start = generated.start;
    let author = start + p.source.len();
    let text =
        Text { key: p.file(), full: &generated.full, start, author, fields: &generated.fields, map: Some(&p.map) };
    if let Some((at, message)) = guard::too_deep(&p.source) {
        return Err(text.error(Stage::Parse, Some(start + at..start + at + 1), message, &[]));
    }
    guard::run(|| run(p, target, &generated, &text)).unwrap_or_else(|| {
        Err(text.error(Stage::Codegen, None, "the shader compiler failed on this source".to_owned(), &[]))
    })
}

/// The author's text with the generated declarations behind it.
struct Generated {
    full: String,
    /// Where the author's text starts.
    start: usize,
    fields: Vec<(Range<usize>, String)>,
    placement: ParamPlacement,
}

impl Generated {
    fn new(p: &ProgramSource, target: &Target) -> Self {
        let mut full = String::new();
        // Directives come first, and in the author's first line, so that no line moves.
        if matches!(&p.interface, Interface::Declared { bindings, .. } if bindings.iter().any(|b| b.array.is_some())) {
            full.push_str("enable wgpu_binding_array; ");
        }
        let start = full.len();
        full.push_str(&p.source);
        let mut out = Self { full, start, fields: Vec::new(), placement: ParamPlacement::None };
        if let Interface::Declared { bindings, params } = &p.interface {
            // A comment in the last line must not swallow what follows.
            out.full.push('\n');
            out.bindings(bindings);
            out.params(params, bindings.len() as u32, target);
        }
        out
    }

    fn push(&mut self, field: String, text: &str) {
        let start = self.full.len();
        self.full.push_str(text);
        self.fields.push((start..self.full.len(), field));
    }

    fn bindings(&mut self, bindings: &[BindingDecl]) {
        for (i, b) in bindings.iter().enumerate() {
            let (space, ty, part) = declaration(b);
            self.push(format!("bindings[{}].name", i + 1), &format!("@group(0) @binding({i}) var{space} {}: ", b.name));
            self.push(format!("bindings[{}].{part}", i + 1), &format!("{ty};\n"));
        }
    }

    fn params(&mut self, params: &[ParamDecl], binding: u32, target: &Target) {
        if params.is_empty() {
            return;
        }
        self.push("params".to_owned(), "struct Params {\n");
        for (i, p) in params.iter().enumerate() {
            self.push(format!("params[{}]", i + 1), &format!("{}: {},\n", p.name, p.ty.wgsl()));
        }
        // An upper bound of the size: every member on a line of its own 16 bytes, a matrix on four.
        let bound: u32 = params.iter().map(|p| (4 * p.ty.components() as u32).next_multiple_of(16)).sum();
        let exact = bound > target.max_push_constant_bytes;
        let size = if exact { packed_size(params) } else { bound };
        self.placement = if size <= target.max_push_constant_bytes {
            ParamPlacement::PushConstants
        } else {
            ParamPlacement::Uniform { binding }
        };
        let variable = match self.placement {
            ParamPlacement::Uniform { binding } => {
                format!("}}\n@group(0) @binding({binding}) var<uniform> params: Params;\n")
            }
            _ => "}\nvar<immediate> params: Params;\n".to_owned(),
        };
        self.push("params".to_owned(), &variable);
    }
}

/// Address space, type, and the field that the type comes from.
fn declaration(b: &BindingDecl) -> (&'static str, String, &'static str) {
    let BindingDecl { element, format, .. } = b;
    let access = match b.access {
        DeclaredAccess::Read => "read",
        DeclaredAccess::Write => "write",
        DeclaredAccess::ReadWrite => "read_write",
    };
    let one = match b.kind {
        BindingKind::UniformBuffer => return ("<uniform>", element.clone(), "element"),
        BindingKind::StorageBuffer => {
            let space = if b.access == DeclaredAccess::Read { "<storage, read>" } else { "<storage, read_write>" };
            return (space, format!("array<{element}>"), "element");
        }
        BindingKind::Texture2d => "texture_2d<f32>".to_owned(),
        BindingKind::Texture3d => "texture_3d<f32>".to_owned(),
        BindingKind::Storage2d => format!("texture_storage_2d<{}, {access}>", format.wgsl()),
        BindingKind::Storage3d => format!("texture_storage_3d<{}, {access}>", format.wgsl()),
        BindingKind::Sampler => "sampler".to_owned(),
    };
    match b.array {
        Some(count) => ("", format!("binding_array<{one}, {count}>"), "array"),
        None => ("", one, "format"),
    }
}

/// Size of a block as naga lays it out: asked of naga, on a module with nothing else in it.
fn packed_size(params: &[ParamDecl]) -> u32 {
    let members: String = params.iter().map(|p| format!("{}: {},", p.name, p.ty.wgsl())).collect();
    let module = naga::front::wgsl::parse_str(&format!("struct Params {{ {members} }}"));
    module.ok().and_then(|m| params_struct(&m).map(|(_, span)| span)).unwrap_or(u32::MAX)
}

fn run(p: &ProgramSource, target: &Target, generated: &Generated, text: &Text<'_>) -> Result<Compiled, ShaderError> {
    let module = front::parse(text)?;
    let info = validate(&module, target, text)?;
    let entry =
        find_entry(&module, p.entry_point.as_deref()).map_err(|m| text.error(Stage::Interface, None, m, &[]))?;
    let name = module.entry_points[entry].name.clone();
    // Before the overrides: settling them drops what the entry point does not use, and that stays in the interface.
    let bindings = reflect(&module, &info, entry, generated, &p.interface, text)?;
    let params = layout(&module, generated, &p.interface, text)?;
    // Overrides become constants; also those in the workgroup size.
    let (module, info) = naga::back::pipeline_constants::process_overrides(
        &module,
        &info,
        Some((ShaderStage::Compute, &name)),
        &Default::default(),
    )
    .map_err(|e| front::override_error(&module, &e, text))?;
    let entry = find_entry(&module, Some(&name)).map_err(|m| text.error(Stage::Interface, None, m, &[]))?;
    let workgroup_size = module.entry_points[entry].workgroup_size;
    check_limits(&module, &info, entry, target, text)?;
    let spirv = write(&module, &info, &name, target).map_err(|e| text.error(Stage::Codegen, None, e, &[]))?;
    let sampled = sampled(&module, &info, entry);
    Ok(Compiled { spirv, entry_point: name, bindings, sampled, params, workgroup_size })
}

/// Which texture is read through which sampler.
fn sampled(module: &Module, info: &ModuleInfo, entry: usize) -> Vec<[u32; 2]> {
    let number = |handle: Handle<GlobalVariable>| module.global_variables[handle].binding.map(|b| b.binding);
    let pairs = info.get_entry_point(entry).sampling_set.iter();
    let mut list: Vec<[u32; 2]> = pairs.filter_map(|key| Some([number(key.image)?, number(key.sampler)?])).collect();
    list.sort_unstable();
    list
}

fn validate(module: &Module, target: &Target, text: &Text<'_>) -> Result<ModuleInfo, ShaderError> {
    // Arrays of textures with constant indices need no feature; dynamic ones are checked for below.
    let mut capabilities = Capabilities::IMMEDIATES | Capabilities::TEXTURE_AND_SAMPLER_BINDING_ARRAY;
    for (has, capability) in [
        (target.float16, Capabilities::SHADER_FLOAT16),
        // Packing halves into words takes no feature in SPIR-V.
        (true, Capabilities::SHADER_FLOAT16_IN_FLOAT32),
        (target.int64, Capabilities::SHADER_INT64),
        (target.float64, Capabilities::FLOAT64),
        (target.subgroups, Capabilities::SUBGROUP | Capabilities::SUBGROUP_BARRIER),
    ] {
        if has {
            capabilities |= capability;
        }
    }
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    if target.subgroups {
        validator.subgroup_stages(ShaderStages::COMPUTE).subgroup_operations(SubgroupOperationSet::all());
    }
    validator.validate(module).map_err(|e| {
        let spans: Vec<_> = e.spans().cloned().collect();
        // The first span is the innermost: the expression at fault rather than the function around it.
        let at = spans.iter().find_map(|(span, _)| span.to_range());
        let notes: Vec<String> = spans.iter().skip(1).map(|(span, label)| text.note(span.to_range(), label)).collect();
        let mut message = chain(e.as_inner());
        // naga names a flag of its own here.
        if message.contains("NON_UNIFORM_INDEXING") {
            message = "an array of textures is indexed by a value that may differ between invocations: select the \
                texture with if or switch, or index it by a parameter"
                .to_owned();
        }
        text.error(Stage::Validate, at, message, &notes)
    })
}

/// An error's message with the messages of its causes: naga's outermost ones say only where, not what.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message += ": ";
        message += &error.to_string();
        cause = error.source();
    }
    message
}

/// Index of the wished-for compute entry point; of `main`, or of the only one, without a wish.
pub(super) fn find_entry(module: &Module, wish: Option<&str>) -> Result<usize, String> {
    let compute: Vec<usize> =
        (0..module.entry_points.len()).filter(|i| module.entry_points[*i].stage == ShaderStage::Compute).collect();
    let name = |i: &usize| module.entry_points[*i].name.as_str();
    let found = compute.iter().find(|i| name(i) == wish.unwrap_or("main"));
    match (found, wish, &compute[..]) {
        (Some(i), _, _) => Ok(*i),
        (None, None, [only]) => Ok(*only),
        (None, _, []) => Err("the source has no @compute entry point".to_owned()),
        (None, _, _) => {
            let names: Vec<&str> = compute.iter().map(name).collect();
            Err(format!(
                "no compute entry point is named \"{}\"; there are: {}",
                wish.unwrap_or("main"),
                names.join(", ")
            ))
        }
    }
}

/// The bindings of group 0, by number.
fn reflect(
    module: &Module,
    info: &ModuleInfo,
    entry: usize,
    generated: &Generated,
    interface: &Interface,
    text: &Text<'_>,
) -> Result<Vec<Binding>, ShaderError> {
    let declared = match interface {
        Interface::Declared { bindings, .. } => Some(bindings.len() as u32),
        Interface::Reflected { .. } => None,
    };
    let uses = info.get_entry_point(entry);
    let mut list: Vec<(Binding, Span)> = Vec::new();
    for (handle, var) in module.global_variables.iter() {
        let span = module.global_variables.get_span(handle);
        let fail = |message: String| Err(text.error(Stage::Interface, span.to_range(), message, &[]));
        let own = span.to_range().is_none_or(|r| r.start < text.author);
        if var.space == AddressSpace::Immediate && own {
            return fail(
                "var<immediate> cannot be bound: declare parameters with compile, or use a uniform buffer".to_owned(),
            );
        }
        let Some(at) = var.binding else { continue };
        if generated.placement == (ParamPlacement::Uniform { binding: at.binding })
            && var.name.as_deref() == Some("params")
        {
            continue;
        }
        if at.group != 0 {
            return fail(format!("@group({}) is not used: all bindings are in group 0", at.group));
        }
        if declared.is_some_and(|n| at.binding >= n) || declared.is_some() && own {
            return fail("the source declares a binding of its own: list it in bindings instead".to_owned());
        }
        let (kind, format, count) = match kind_of(module, var) {
            Ok(kind) => kind,
            Err(message) => return fail(message),
        };
        let used = uses[handle];
        list.push((
            Binding {
                name: var.name.clone().unwrap_or_default().into(),
                binding: at.binding,
                kind,
                access: Access {
                    read: used.intersects(GlobalUse::READ | GlobalUse::ATOMIC),
                    write: used.intersects(GlobalUse::WRITE | GlobalUse::ATOMIC),
                },
                min_bytes: if kind.is_buffer() { type_bytes(module, var) } else { 0 },
                format,
                count,
            },
            span,
        ));
    }
    list.sort_by_key(|(b, _)| b.binding);
    for (expected, (binding, span)) in list.iter().enumerate() {
        if binding.binding != expected as u32 {
            let message = if expected > 0 && list[expected - 1].0.binding == binding.binding {
                format!("two variables share @binding({})", binding.binding)
            } else {
                format!("@binding({}) leaves a gap: bindings are numbered from 0 without gaps", binding.binding)
            };
            return Err(text.error(Stage::Interface, span.to_range(), message, &[]));
        }
    }
    Ok(list.into_iter().map(|(b, _)| b).collect())
}

/// What a resource variable is: its kind, the format of a storage texture, how many there are.
pub(super) fn kind_of(module: &Module, var: &GlobalVariable) -> Result<(BindingKind, Option<Format>, u32), String> {
    match var.space {
        AddressSpace::Storage { .. } => return Ok((BindingKind::StorageBuffer, None, 1)),
        AddressSpace::Uniform => return Ok((BindingKind::UniformBuffer, None, 1)),
        _ => {}
    }
    let (inner, count) = match &module.types[var.ty].inner {
        TypeInner::BindingArray { base, size: ArraySize::Constant(count) } => (&module.types[*base].inner, count.get()),
        TypeInner::BindingArray { .. } => return Err("an array of textures needs a constant size".to_owned()),
        inner => (inner, 1),
    };
    let accepted = "texture_2d<f32>, texture_3d<f32>, texture_storage_2d, texture_storage_3d and sampler can be bound";
    let kind = match inner {
        TypeInner::Sampler { comparison: false } => (BindingKind::Sampler, None),
        TypeInner::Image { dim, arrayed: false, class } => match (dim, class) {
            (ImageDimension::D2, ImageClass::Sampled { kind: ScalarKind::Float, multi: false }) => {
                (BindingKind::Texture2d, None)
            }
            (ImageDimension::D3, ImageClass::Sampled { kind: ScalarKind::Float, multi: false }) => {
                (BindingKind::Texture3d, None)
            }
            (ImageDimension::D2, ImageClass::Storage { format, .. }) => {
                (BindingKind::Storage2d, Some(storage(*format)?))
            }
            (ImageDimension::D3, ImageClass::Storage { format, .. }) => {
                (BindingKind::Storage3d, Some(storage(*format)?))
            }
            _ => return Err(format!("this kind of texture is not known: {accepted}")),
        },
        _ => return Err(format!("this kind of resource is not known: {accepted}")),
    };
    Ok((kind.0, kind.1, count))
}

fn storage(format: StorageFormat) -> Result<Format, String> {
    Ok(match format {
        StorageFormat::R8Unorm => Format::R8,
        StorageFormat::R16Float => Format::R16f,
        StorageFormat::R32Float => Format::R32f,
        StorageFormat::Rgba8Unorm => Format::Rgba8,
        StorageFormat::Rgba16Float => Format::Rgba16f,
        StorageFormat::Rgba32Float => Format::Rgba32f,
        other => {
            let known: Vec<&str> = Format::ALL.iter().map(|f| f.wgsl()).collect();
            return Err(format!("storage textures of {other:?} are not known: use one of {}", known.join(", ")));
        }
    })
}

/// Size of a variable, a trailing runtime-sized array counted as one element.
fn type_bytes(module: &Module, var: &GlobalVariable) -> u64 {
    module.types[var.ty].inner.try_size(module.to_ctx()).map_or(u64::from(u32::MAX), u64::from)
}

fn check_limits(
    module: &Module,
    info: &ModuleInfo,
    entry: usize,
    target: &Target,
    text: &Text<'_>,
) -> Result<(), ShaderError> {
    let fail = |message: String| Err(text.error(Stage::Limits, None, message, &[]));
    let size = module.entry_points[entry].workgroup_size;
    for axis in 0..3 {
        let (given, limit) = (size[axis], target.max_workgroup_size[axis]);
        if given == 0 || given > limit {
            return fail(format!(
                "@workgroup_size is {given} along {}; the device takes 1 to {limit}",
                ["x", "y", "z"][axis]
            ));
        }
    }
    let invocations: u64 = size.iter().map(|s| u64::from(*s)).product();
    if invocations > u64::from(target.max_workgroup_invocations) {
        return fail(format!(
            "@workgroup_size makes {invocations} invocations; the device takes {}",
            target.max_workgroup_invocations
        ));
    }
    let uses = info.get_entry_point(entry);
    let used = |handle: Handle<GlobalVariable>| !uses[handle].is_empty();
    let memory: u64 = module
        .global_variables
        .iter()
        .filter(|(handle, var)| var.space == AddressSpace::WorkGroup && used(*handle))
        .map(|(_, var)| type_bytes(module, var))
        .sum();
    if memory > u64::from(target.max_workgroup_memory) {
        return fail(format!(
            "workgroup variables take {memory} bytes; the device has {}",
            target.max_workgroup_memory
        ));
    }
    Ok(())
}

/// Members and size of the parameter struct.
fn params_struct(module: &Module) -> Option<(&[naga::StructMember], u32)> {
    module.types.iter().find_map(|(_, ty)| match (&ty.name, &ty.inner) {
        (Some(name), TypeInner::Struct { members, span }) if name == "Params" => Some((members.as_slice(), *span)),
        _ => None,
    })
}

fn layout(
    module: &Module,
    generated: &Generated,
    interface: &Interface,
    text: &Text<'_>,
) -> Result<ParamLayout, ShaderError> {
    let params = match interface {
        Interface::Declared { params, .. } if !params.is_empty() => params,
        _ => return Ok(ParamLayout::default()),
    };
    let Some((members, bytes)) = params_struct(module).filter(|(m, _)| m.len() == params.len()) else {
        return Err(text.error(Stage::Interface, None, "the parameter block is not in the module".to_owned(), &[]));
    };
    let fields = params
        .iter()
        .zip(members)
        .map(|(p, m)| ParamField { name: p.name.as_str().into(), ty: p.ty, offset: m.offset })
        .collect();
    let mut layout =
        ParamLayout { placement: generated.placement, bytes: bytes.next_multiple_of(4), fields, defaults: Vec::new() };
    let mut defaults = vec![0; layout.bytes as usize];
    for (i, p) in params.iter().enumerate() {
        for component in 0..p.ty.components() {
            layout.write_field(&mut defaults, i, component, p.default[component]);
        }
    }
    layout.defaults = defaults;
    Ok(layout)
}

fn write(module: &Module, info: &ModuleInfo, entry: &str, target: &Target) -> Result<Vec<u32>, String> {
    let safety = Safety::for_target(target);
    let policy = |on| if on { BoundsCheckPolicy::Restrict } else { BoundsCheckPolicy::Unchecked };
    let options = spv::Options {
        lang_version: (1, 5),
        flags: spv::WriterFlags::DEBUG,
        // With an empty map this means: group and binding as they stand in the source.
        fake_missing_bindings: true,
        bounds_check_policies: BoundsCheckPolicies {
            index: policy(safety.index),
            buffer: policy(safety.buffer),
            // Robust image access is part of Vulkan 1.3 and always on. naga's own check of unsigned coordinates is
            // not even valid SPIR-V.
            image_load: BoundsCheckPolicy::Unchecked,
            binding_array: BoundsCheckPolicy::Restrict,
        },
        zero_initialize_workgroup_memory: match (safety.zero_workgroup, target.zero_init_workgroup_memory) {
            (false, _) => spv::ZeroInitializeWorkgroupMemoryMode::None,
            (true, true) => spv::ZeroInitializeWorkgroupMemoryMode::Native,
            (true, false) => spv::ZeroInitializeWorkgroupMemoryMode::Polyfill,
        },
        capabilities: Some(capabilities::of(target)),
        // Stage inputs and outputs, of which a compute shader has none.
        use_storage_input_output_16: false,
        force_loop_bounding: safety.loops,
        emit_int_div_checks: safety.division,
        ..spv::Options::default()
    };
    let pipeline = spv::PipelineOptions { shader_stage: ShaderStage::Compute, entry_point: entry.to_owned() };
    let words = spv::write_vec(module, info, &options, Some(&pipeline)).map_err(|e| chain(&e))?;
    Ok(super::layout_free::strip(words))
}
