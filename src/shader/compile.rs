//! From source to SPIR-V, bindings and parameter layout.

use super::report::{ShaderError, Stage, Text};
use super::schema::{
    Access, Binding, BindingDecl, BindingKind, DeclaredAccess, Interface, ParamDecl, ParamField, ParamLayout,
    ParamPlacement, ProgramSource, Target,
};
use naga::back::spv;
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::{
    Capabilities, GlobalUse, ModuleInfo, ShaderStages, SubgroupOperationSet, ValidationFlags, Validator,
};
use naga::{AddressSpace, GlobalVariable, Handle, Module, ShaderStage, Span, TypeInner};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A compiled program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// SPIR-V words.
    pub spirv: Vec<u32>,
    /// Name of the entry point in it.
    pub entry_point: String,
    /// Bindings of group 0, numbered without gaps.
    pub bindings: Vec<Binding>,
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

impl Safety {
    /// Everything that the device does not do itself.
    #[must_use]
    pub const fn for_target(target: &Target) -> Self {
        Self { index: true, buffer: !target.robust_buffer_access2, loops: true, zero_workgroup: true, division: true }
    }
}

/// Compiles a program for a device.
///
/// # Errors
/// Why the source is no program for this device, with the place in the author's text.
pub fn compile(p: &ProgramSource, target: &Target) -> Result<Compiled, ShaderError> {
    let generated = Generated::new(p, target);
    let text = Text { key: &p.key, full: &generated.full, author: p.source.len(), fields: &generated.fields };
    // naga is a large program fed by strangers: a fault in it must cost this source, not the process. Nothing that
    // the closure touches is used after a panic.
    catch_unwind(AssertUnwindSafe(|| run(p, target, &generated, &text))).unwrap_or_else(|_| {
        Err(text.error(Stage::Codegen, None, "the shader compiler failed on this source".to_owned(), &[]))
    })
}

/// The author's text with the generated declarations behind it.
struct Generated {
    full: String,
    fields: Vec<(Range<usize>, String)>,
    placement: ParamPlacement,
}

impl Generated {
    fn new(p: &ProgramSource, target: &Target) -> Self {
        let mut out = Self { full: p.source.clone(), fields: Vec::new(), placement: ParamPlacement::None };
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
            let BindingDecl { name, element, .. } = b;
            let (space, ty) = match (b.kind, b.access) {
                (BindingKind::UniformBuffer, _) => ("uniform", element.clone()),
                (BindingKind::StorageBuffer, DeclaredAccess::Read) => ("storage, read", format!("array<{element}>")),
                (BindingKind::StorageBuffer, DeclaredAccess::ReadWrite) => {
                    ("storage, read_write", format!("array<{element}>"))
                }
            };
            self.push(format!("bindings[{}].name", i + 1), &format!("@group(0) @binding({i}) var<{space}> {name}: "));
            self.push(format!("bindings[{}].element", i + 1), &format!("{ty};\n"));
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

/// Size of a block as naga lays it out: asked of naga, on a module with nothing else in it.
fn packed_size(params: &[ParamDecl]) -> u32 {
    let members: String = params.iter().map(|p| format!("{}: {},", p.name, p.ty.wgsl())).collect();
    let module = naga::front::wgsl::parse_str(&format!("struct Params {{ {members} }}"));
    module.ok().and_then(|m| params_struct(&m).map(|(_, span)| span)).unwrap_or(u32::MAX)
}

fn run(p: &ProgramSource, target: &Target, generated: &Generated, text: &Text<'_>) -> Result<Compiled, ShaderError> {
    let module = naga::front::wgsl::parse_str(&generated.full).map_err(|e| {
        let notes: Vec<String> = e.notes().map(str::to_owned).collect();
        let mut labels = e.labels();
        let first = labels.next();
        let message = match first {
            Some((_, label)) if !e.message().contains(label) => format!("{}: {label}", e.message()),
            _ => e.message().to_owned(),
        };
        text.error(Stage::Parse, first.and_then(|(span, _)| span.to_range()), message, &notes)
    })?;
    let info = validate(&module, target, text)?;
    let entry =
        find_entry(&module, p.entry_point.as_deref()).map_err(|m| text.error(Stage::Interface, None, m, &[]))?;
    let name = module.entry_points[entry].name.clone();
    // Overrides become constants; also those in the workgroup size.
    let (module, info) = naga::back::pipeline_constants::process_overrides(
        &module,
        &info,
        Some((ShaderStage::Compute, &name)),
        &Default::default(),
    )
    .map_err(|e| {
        text.error(
            Stage::Interface,
            None,
            format!("override constants: {}", chain(&e)),
            &["give every override a default value".to_owned()],
        )
    })?;
    let entry = find_entry(&module, Some(&name)).map_err(|m| text.error(Stage::Interface, None, m, &[]))?;
    let workgroup_size = module.entry_points[entry].workgroup_size;
    let bindings = reflect(&module, &info, entry, generated, &p.interface, text)?;
    check_limits(&module, &info, entry, target, text)?;
    let params = layout(&module, generated, &p.interface, text)?;
    let spirv = write(&module, &info, &name, target).map_err(|e| text.error(Stage::Codegen, None, e, &[]))?;
    Ok(Compiled { spirv, entry_point: name, bindings, params, workgroup_size })
}

fn validate(module: &Module, target: &Target, text: &Text<'_>) -> Result<ModuleInfo, ShaderError> {
    let mut capabilities = Capabilities::IMMEDIATES;
    for (has, capability) in [
        (target.float16, Capabilities::SHADER_FLOAT16 | Capabilities::SHADER_FLOAT16_IN_FLOAT32),
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
        let notes: Vec<String> =
            spans.iter().skip(1).map(|(_, label)| label.clone()).filter(|l| !l.is_empty()).collect();
        text.error(Stage::Validate, at, chain(e.as_inner()), &notes)
    })
}

/// An error's message with the messages of its causes: naga's outermost ones say only where, not what.
fn chain(error: &dyn std::error::Error) -> String {
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
        if var.space == AddressSpace::Immediate && declared.is_none() {
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
        if declared.is_some_and(|n| at.binding >= n)
            || declared.is_some() && span.to_range().is_some_and(|r| r.start < text.author)
        {
            return fail("the source declares a binding of its own: list it in bindings instead".to_owned());
        }
        let kind = match var.space {
            AddressSpace::Storage { .. } => BindingKind::StorageBuffer,
            AddressSpace::Uniform => BindingKind::UniformBuffer,
            _ => return fail("textures and samplers cannot be bound yet: storage and uniform buffers can".to_owned()),
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
                min_bytes: type_bytes(module, var),
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

/// Size of a variable, a trailing runtime-sized array counted as one element.
fn type_bytes(module: &Module, var: &GlobalVariable) -> u64 {
    u64::from(module.types[var.ty].inner.size(module.to_ctx()))
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
            image_load: BoundsCheckPolicy::Restrict,
            binding_array: BoundsCheckPolicy::Restrict,
        },
        zero_initialize_workgroup_memory: match (safety.zero_workgroup, target.zero_init_workgroup_memory) {
            (false, _) => spv::ZeroInitializeWorkgroupMemoryMode::None,
            (true, true) => spv::ZeroInitializeWorkgroupMemoryMode::Native,
            (true, false) => spv::ZeroInitializeWorkgroupMemoryMode::Polyfill,
        },
        force_loop_bounding: safety.loops,
        emit_int_div_checks: safety.division,
        ..spv::Options::default()
    };
    let pipeline = spv::PipelineOptions { shader_stage: ShaderStage::Compute, entry_point: entry.to_owned() };
    let words = spv::write_vec(module, info, &options, Some(&pipeline)).map_err(|e| chain(&e))?;
    Ok(super::layout_free::strip(words))
}
