//! What can be said of an interface at the call, before anything is compiled.

use super::schema::{BindingDecl, Interface, ParamDecl, ProgramSource};
use naga::valid::GlobalUse;
use std::panic::{AssertUnwindSafe, catch_unwind};

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
        Interface::Reflected { bindings: None, read_only: None } => Ok(()),
        Interface::Reflected { bindings, read_only } => {
            // naga panicking on a source must not take the caller along; the compile reports it.
            let declared = catch_unwind(AssertUnwindSafe(|| declared_bindings(p))).ok().flatten();
            match declared {
                Some(declared) => check_counts(&declared, *bindings, read_only.as_deref().unwrap_or_default()),
                None => Ok(()),
            }
        }
    }
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
        let spelled =
            !b.element.trim().is_empty() && b.element.chars().all(|c| c.is_ascii_alphanumeric() || "_<>, ".contains(c));
        if !spelled {
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
    if good { Ok(()) } else { refuse(field, format!("\"{name}\""), "a WGSL identifier") }
}

/// (binding, written by the entry point) of every resource of group 0, by binding. `None` if that cannot be told.
fn declared_bindings(p: &ProgramSource) -> Option<Vec<(u32, bool)>> {
    let module = naga::front::wgsl::parse_str(&p.source).ok()?;
    // All capabilities: what the device lacks is for the compile to say.
    let mut validator =
        naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all());
    validator.subgroup_stages(naga::valid::ShaderStages::all());
    validator.subgroup_operations(naga::valid::SubgroupOperationSet::all());
    let info = validator.validate(&module).ok();
    let entry = super::compile::find_entry(&module, p.entry_point.as_deref()).ok();
    let mut list: Vec<(u32, bool)> = Vec::new();
    for (handle, var) in module.global_variables.iter() {
        if let Some(binding) = var.binding.filter(|b| b.group == 0) {
            let used = info.as_ref().zip(entry).map_or(GlobalUse::empty(), |(info, e)| info.get_entry_point(e)[handle]);
            list.push((binding.binding, used.intersects(GlobalUse::WRITE | GlobalUse::ATOMIC)));
        }
    }
    list.sort_unstable();
    Some(list)
}

fn check_counts(declared: &[(u32, bool)], count: Option<u32>, read_only: &[u32]) -> Result<(), InterfaceError> {
    let n = declared.len() as u32;
    if let Some(count) = count.filter(|c| *c != n) {
        return refuse("bindings", count, format!("{n}, the number of @group(0) bindings that the source declares"));
    }
    for (i, binding) in read_only.iter().enumerate() {
        let field = format!("readOnlyBindings[{}]", i + 1);
        if *binding >= n {
            let accepted = match n {
                0 => "no entry: the source declares no binding".to_owned(),
                _ => format!("a whole number from 0 to {}", n - 1),
            };
            return refuse(field, binding, accepted);
        }
        if declared.iter().any(|(b, written)| b == binding && *written) {
            return refuse(field, binding, "a binding that the source does not write");
        }
    }
    Ok(())
}
