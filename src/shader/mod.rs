//! WGSL to SPIR-V: declared or reflected interfaces, naga, layouts, errors in the author's own lines.
//!
//! A program comes with one of two interfaces. A *reflected* one has its own `@group(0) @binding(n)` declarations in
//! the source. A *declared* one has a list of bindings and parameters beside a source that only holds functions; the
//! declarations are generated and put behind the author's text, so that no line of it moves.
//!
//! Everything here is a pure function of its arguments; the same source gives the same words of SPIR-V.

mod capabilities;
mod check;
mod compile;
mod front;
mod guard;
mod include;
mod layout_free;
mod report;
mod schema;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use check::MOST_IN_ARRAY;
pub use check::{InterfaceError, check_interface};
pub use compile::{Compiled, Safety, compile};
pub use include::{BUILT_IN, SourceMap, expand};
pub use report::{ShaderError, Stage};
pub use schema::{
    Access, Binding, BindingDecl, BindingKind, DeclaredAccess, Interface, ParamDecl, ParamField, ParamLayout,
    ParamPlacement, ParamType, ProgramSource, Target,
};
