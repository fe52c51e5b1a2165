//! What can be said of an interface at the call, before anything is compiled.

use super::schema::{BindingDecl, BindingKind, Interface, ParamDecl, ProgramSource};
use crate::texture::Format;
use naga::valid::GlobalUse;

/// An entry of an interface that is not well-formed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: got {given}; expected {accepted}")]
pub struct InterfaceError {
    /// The entry's path; lists count from 1.
    pub field: String,
    /// What was given.
    pub given: String,
    /// What would be taken.
    pub accepted: String,
}

fn refuse<T>(field: impl Into<String>, given: impl ToString, accepted: impl Into<String>) -> Result<T, InterfaceError> {
    Err(InterfaceError { field: field.into(), given: given.to_string(), accepted: accepted.into() })
}

/// Checks names, element types and counts.
///
/// For a reflected interface that states counts the source is parsed here; one that does not parse is not this
/// function's to report.
///
/// # Errors
/// The first entry that is not well-formed.
pub fn check_interface(p: &ProgramSource) -> Result<(), InterfaceError> {
    match &p.interface {
        Interface::Declared { bindings, params } => check_declared(bindings, params),
        Interface::Reflected { bindings: None, read_only: None, kinds: None } => Ok(()),
        Interface::Reflected { bindings, read_only, kinds } => {
            // naga panicking on a source must not take the caller along; the compile reports it.
            match super::guard::run(|| declared_bindings(p)).flatten() {
                Some(declared) => {
                    // The two ways to register mark what is only read in two places.
                    let field = |i: usize, binding: u32| match kinds {
                        None => format!("readOnlyBindings[{}]", i + 1),
                        Some(_) => format!("bindings[{}].readOnly", binding + 1),
                    };
                    check_counts(&declared, *bindings, read_only.as_deref().unwrap_or_default(), field)?;
                    kinds.as_ref().map_or(Ok(()), |kinds| check_kinds(&declared, kinds))
                }
                None => Ok(()),
            }
        }
    }
}

/// Textures in one array at most.
pub(crate) const MOST_IN_ARRAY: u32 = 64;

fn check_kinds(declared: &[Declared], kinds: &[(BindingKind, Option<Format>)]) -> Result<(), InterfaceError> {
    if declared.len() != kinds.len() {
        let accepted = format!("{}, the number of @group(0) bindings that the source declares", declared.len());
        return refuse("bindings", format!("{} entries", kinds.len()), accepted);
    }
    for (i, (d, (kind, format))) in declared.iter().zip(kinds).enumerate() {
        let Some((real, real_format)) = d.kind else { continue };
        if real != *kind {
            let accepted = format!("\"{}\", which the source declares there", real.registered_name());
            return refuse(format!("bindings[{}].kind", i + 1), format!("\"{}\"", kind.registered_name()), accepted);
        }
        if let (Some(given), Some(real)) = (format, real_format)
            && *given != real
        {
            let accepted = format!("\"{}\", which the source declares there", real.name());
            return refuse(format!("bindings[{}].format", i + 1), format!("\"{}\"", given.name()), accepted);
        }
    }
    Ok(())
}

fn check_declared(bindings: &[BindingDecl], params: &[ParamDecl]) -> Result<(), InterfaceError> {
    let mut taken: Vec<&str> = if params.is_empty() { Vec::new() } else { vec!["params", "Params"] };
    for (i, b) in bindings.iter().enumerate() {
        let field = format!("bindings[{}].name", i + 1);
        check_identifier(&field, &b.name)?;
        if taken.contains(&b.name.as_str()) {
            return refuse(field, format!("\"{}\"", b.name), "a name that is not taken");
        }
        taken.push(&b.name);
        if let Some(count) = b.array {
            let field = format!("bindings[{}].array", i + 1);
            if !b.kind.can_be_array() {
                let given = format!("{count} for a {}", b.kind.declared_name());
                let kinds = BindingKind::ALL.iter().filter(|k| k.can_be_array()).map(|k| k.declared_name());
                return refuse(field, given, format!("none: arrays are of {}", kinds.collect::<Vec<_>>().join(", ")));
            }
            if count == 0 || count > MOST_IN_ARRAY {
                return refuse(field, count, format!("a whole number from 1 to {MOST_IN_ARRAY}"));
            }
        }
        if !is_one_type(&b.element) {
            return refuse(
                format!("bindings[{}].element", i + 1),
                format!("\"{}\"", b.element),
                "a WGSL type such as f32, vec4<f32> or a struct of the source",
            );
        }
    }
    for (i, param) in params.iter().enumerate() {
        let field = format!("params[{}].name", i + 1);
        check_identifier(&field, &param.name)?;
        if params[..i].iter().any(|p| p.name == param.name) {
            return refuse(field, format!("\"{}\"", param.name), "a name that is not taken");
        }
    }
    Ok(())
}

fn check_identifier(field: &str, name: &str) -> Result<(), InterfaceError> {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let good = starts && chars.all(|c| c.is_ascii_alphanumeric() || c == '_') && name != "_" && !name.starts_with("__");
    if !good {
        return refuse(field, format!("\"{name}\""), "a WGSL identifier of ASCII letters, digits and _");
    }
    if naga::keywords::wgsl::RESERVED.contains(&name) {
        return refuse(field, format!("\"{name}\""), "a name that WGSL does not reserve");
    }
    Ok(())
}

/// Whether a text is one type: brackets that match, and no comma outside them, which would end it.
fn is_one_type(text: &str) -> bool {
    let mut open = 0_usize;
    for c in text.chars() {
        match c {
            '<' => open += 1,
            '>' if open == 0 => return false,
            '>' => open -= 1,
            ',' if open == 0 => return false,
            c if c.is_ascii_alphanumeric() || "_, ".contains(c) => {}
            _ => return false,
        }
    }
    open == 0 && !text.trim().is_empty()
}

/// A resource of group 0 as the source declares it.
struct Declared {
    binding: u32,
    /// Whether the entry point writes it.
    written: bool,
    /// Kind and format; none where it is of no kind that can be bound.
    kind: Option<(BindingKind, Option<Format>)>,
}

/// Every resource of group 0, by binding. `None` if that cannot be told.
fn declared_bindings(p: &ProgramSource) -> Option<Vec<Declared>> {
    if super::guard::too_deep(&p.source).is_some() {
        return None;
    }
    let module = naga::front::wgsl::parse_str(&p.source).ok()?;
    // All capabilities: what the device lacks is for the compile to say.
    let mut validator =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
    validator.subgroup_stages(naga::valid::ShaderStages::all());
    validator.subgroup_operations(naga::valid::SubgroupOperationSet::all());
    let info = validator.validate(&module).ok();
    let entry = super::compile::find_entry(&module, p.entry_point.as_deref()).ok();
    let mut list: Vec<Declared> = Vec::new();
    for (handle, var) in module.global_variables.iter() {
        if let Some(binding) = var.binding.filter(|b| b.group == 0) {
            let used = info.as_ref().zip(entry).map_or(GlobalUse::empty(), |(info, e)| info.get_entry_point(e)[handle]);
            list.push(Declared {
                binding: binding.binding,
                written: used.intersects(GlobalUse::WRITE | GlobalUse::ATOMIC),
                kind: super::compile::kind_of(&module, var).ok().map(|(kind, format, _)| (kind, format)),
            });
        }
    }
    list.sort_by_key(|d| d.binding);
    Some(list)
}

fn check_counts(
    declared: &[Declared],
    count: Option<u32>,
    read_only: &[u32],
    field: impl Fn(usize, u32) -> String,
) -> Result<(), InterfaceError> {
    let n = declared.len() as u32;
    if let Some(count) = count.filter(|c| *c != n) {
        return refuse("bindings", count, format!("{n}, the number of @group(0) bindings that the source declares"));
    }
    for (i, binding) in read_only.iter().enumerate() {
        let field = field(i, *binding);
        if *binding >= n {
            let accepted = match n {
                0 => "no entry: the source declares no binding".to_owned(),
                _ => format!("a whole number from 0 to {}", n - 1),
            };
            return refuse(field, binding, accepted);
        }
        if declared.iter().any(|d| d.binding == *binding && d.written) {
            return refuse(field, binding, "a binding that the source does not write");
        }
    }
    Ok(())
}
