//! `bindings.yaml`: the declared interface of a compute shader asset.
//!
//! ```yaml
//! guid: 0b8f7c1e-5b8e-4f6e-9a52-3a4b8f0d2c11   # optional; keep it when the asset moves
//! entryPoint: main                              # optional
//! label: blur                                   # optional: what the profiler calls it
//! bindings:
//!   - { name: src, kind: buffer, access: read, element: vec4<f32> }
//!   - { name: dst, kind: storage2d, format: rgba8 }
//! params:
//!   - { name: radius, type: u32, default: 4 }
//!   - { name: tint, type: vec3, default: [1, 0.5, 0] }
//! ```

use crate::shader::{BindingDecl, BindingKind, DeclaredAccess, Interface, MOST_IN_ARRAY, ParamDecl, ParamType};
use crate::texture::Format;
use serde::Deserialize;

/// Why a `bindings.yaml` was refused: its line and column where they are known, and what is accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BindingsError(String);

/// A `bindings.yaml`, read and checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The asset's own guid, in lower case with hyphens.
    pub guid: Option<String>,
    /// The entry point.
    pub entry_point: Option<String>,
    /// What tools call its dispatches.
    pub label: Option<String>,
    /// The bindings and parameters.
    pub interface: Interface,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    guid: Option<String>,
    entry_point: Option<String>,
    label: Option<String>,
    #[serde(default)]
    bindings: Vec<BindingEntry>,
    #[serde(default)]
    params: Vec<ParamEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BindingEntry {
    name: String,
    kind: String,
    access: Option<String>,
    element: Option<String>,
    format: Option<String>,
    array: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParamEntry {
    name: String,
    #[serde(rename = "type")]
    ty: Option<String>,
    default: Option<Default>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Default {
    Bool(bool),
    Number(f64),
    List(Vec<f64>),
}

/// Reads a `bindings.yaml`.
///
/// # Errors
/// Text that is no YAML, unknown fields and values that are not accepted; the message says which are.
pub fn parse_bindings(text: &str) -> Result<Parsed, BindingsError> {
    // An empty file declares nothing, which is a valid interface.
    let blank = text.lines().all(|l| l.trim().is_empty() || l.trim_start().starts_with('#'));
    let text = if blank { "{}" } else { text };
    let file: File = serde_saphyr::from_str(text).map_err(|e| BindingsError(e.to_string()))?;
    let guid = match file.guid {
        None => None,
        Some(text) => match uuid::Uuid::parse_str(&text) {
            Ok(guid) => Some(guid.to_string()),
            Err(_) => return Err(refuse("guid", &text, "a UUID, 8-4-4-4-12 hexadecimal digits")),
        },
    };
    let bindings = each("bindings", file.bindings, binding)?;
    let params = each("params", file.params, param)?;
    let interface = Interface::Declared { bindings, params };
    Ok(Parsed { guid, entry_point: file.entry_point, label: file.label, interface })
}

fn refuse(field: &str, given: &str, accepted: &str) -> BindingsError {
    BindingsError(format!("{field}: got \"{given}\"; expected {accepted}"))
}

fn each<T, U>(
    list: &str,
    entries: Vec<T>,
    read: fn(&str, T) -> Result<U, BindingsError>,
) -> Result<Vec<U>, BindingsError> {
    entries.into_iter().enumerate().map(|(i, entry)| read(&format!("{list}[{}]", i + 1), entry)).collect()
}

fn binding(path: &str, entry: BindingEntry) -> Result<BindingDecl, BindingsError> {
    let refused = |field: &str, given: &str, accepted: &str| Err(refuse(&format!("{path}.{field}"), given, accepted));
    let Some(kind) = BindingKind::from_declared_name(&entry.kind) else {
        return refused("kind", &entry.kind, &format!("one of {}", BindingKind::declared_names().join(", ")));
    };
    let access = match entry.access.as_deref() {
        None => kind.default_access(),
        Some(name) => match DeclaredAccess::from_name(name) {
            Some(access) => access,
            None => return refused("access", name, &format!("one of {}", DeclaredAccess::NAMES.join(", "))),
        },
    };
    let format = match entry.format.as_deref() {
        None => Format::Rgba16f,
        Some(name) => match Format::from_name(name) {
            Some(format) => format,
            None => return refused("format", name, &format!("one of {}", Format::NAMES.join(", "))),
        },
    };
    if let Some(count) = entry.array.filter(|count| !(1..=MOST_IN_ARRAY).contains(count)) {
        return refused("array", &count.to_string(), &format!("a whole number from 1 to {MOST_IN_ARRAY}"));
    }
    let element = entry.element.unwrap_or_else(|| "f32".to_owned());
    Ok(BindingDecl { name: entry.name, kind, access, element, format, array: entry.array })
}

fn param(path: &str, entry: ParamEntry) -> Result<ParamDecl, BindingsError> {
    let ty = match entry.ty.as_deref() {
        None => ParamType::F32,
        Some(name) => ParamType::from_name(name)
            .ok_or_else(|| refuse(&format!("{path}.type"), name, &format!("one of {}", ParamType::NAMES.join(", "))))?,
    };
    let mut default = [0.0; 16];
    match entry.default {
        None => {}
        Some(Default::Bool(b)) => default[0] = f64::from(u8::from(b)),
        Some(Default::Number(n)) if ty.components() == 1 => default[0] = n,
        Some(Default::List(list)) if list.len() == ty.components() => default[..list.len()].copy_from_slice(&list),
        Some(other) => {
            let given = match other {
                Default::List(list) => format!("{} numbers", list.len()),
                _ => "1 number".to_owned(),
            };
            return Err(BindingsError(format!("{path}.default: got {given}; expected {} numbers", ty.components())));
        }
    }
    Ok(ParamDecl { name: entry.name, ty, default })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file() {
        let text = "
guid: 0B8F7C1E-5b8e-4f6e-9a52-3a4b8f0d2c11
entryPoint: blur
label: soft
bindings:
  - { name: src, kind: buffer, access: read, element: vec4<f32> }
  - { name: images, kind: texture2d, array: 3 }
  - { name: dst, kind: storage2d, format: rgba8 }
params:
  - { name: radius, type: u32, default: 4 }
  - { name: tint, type: vec3, default: [1, 0.5, 0] }
  - { name: on, type: bool, default: true }
  - { name: scale }
";
        let parsed = parse_bindings(text).unwrap();
        assert_eq!(parsed.guid.as_deref(), Some("0b8f7c1e-5b8e-4f6e-9a52-3a4b8f0d2c11"));
        assert_eq!((parsed.entry_point.as_deref(), parsed.label.as_deref()), (Some("blur"), Some("soft")));
        let Interface::Declared { bindings, params } = parsed.interface else { panic!("a declared interface") };
        assert_eq!(bindings[0], BindingDecl::buffer("src", DeclaredAccess::Read, "vec4<f32>"));
        assert_eq!((bindings[1].kind, bindings[1].array), (BindingKind::Texture2d, Some(3)));
        assert_eq!((bindings[2].access, bindings[2].format), (DeclaredAccess::Write, Format::Rgba8));
        let values: Vec<_> = params.iter().map(|p| (p.name.as_str(), p.ty, p.default[0], p.default[1])).collect();
        let expected = [
            ("radius", ParamType::U32, 4.0, 0.0),
            ("tint", ParamType::Vec3, 1.0, 0.5),
            ("on", ParamType::Bool, 1.0, 0.0),
            ("scale", ParamType::F32, 0.0, 0.0),
        ];
        assert_eq!(values, expected);
    }

    #[test]
    fn a_file_may_declare_nothing() {
        for text in ["", "\n", "# nothing\n", "{}", "bindings: []"] {
            let parsed = parse_bindings(text).unwrap_or_else(|e| panic!("{text:?}: {e}"));
            assert_eq!(parsed.interface, Interface::Declared { bindings: Vec::new(), params: Vec::new() });
        }
    }

    #[test]
    fn what_is_refused_says_where_and_why() {
        let cases = [
            ("guid: nonsense", "guid: got \"nonsense\"; expected a UUID"),
            ("bindings: [{ name: a, kind: buffet }]", "bindings[1].kind: got \"buffet\"; expected one of buffer, "),
            ("bindings: [{ name: a, kind: buffer, access: w }]", "bindings[1].access: got \"w\"; expected one of read"),
            ("bindings: [{ name: a, kind: storage2d, format: rgb9 }]", "bindings[1].format: got \"rgb9\""),
            ("bindings: [{ name: a, kind: texture2d, array: 0 }]", "bindings[1].array: got \"0\""),
            ("params: [{ name: a, type: vec5 }]", "params[1].type: got \"vec5\"; expected one of f32"),
            ("params: [{ name: a, type: vec2, default: [1] }]", "params[1].default: got 1 numbers; expected 2"),
            ("params: [{ name: a, default: [1, 2] }]", "params[1].default: got 2 numbers; expected 1"),
        ];
        for (text, start) in cases {
            let error = parse_bindings(text).unwrap_err().to_string();
            assert!(error.starts_with(start), "{text}: {error}");
        }
        for (text, part) in [
            ("bindings:\n  - { name: a, kind: buffer, acess: read }", "acess"),
            ("bindings: 3", "1"),
            ("a: [", ""),
            ("bindings: [{ kind: buffer }]", "name"),
        ] {
            let error = parse_bindings(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
