//! The vocabulary of interfaces: what is declared, what is reflected, and how parameters lie in memory.

use super::include::SourceMap;
use crate::texture::Format;

/// What the device can do, as far as code generation cares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Out-of-bounds buffer accesses are caught by the device, exactly.
    pub robust_buffer_access2: bool,
    /// Workgroup memory can be declared zero-initialised.
    pub zero_init_workgroup_memory: bool,
    /// `f16` is available.
    pub float16: bool,
    /// 64-bit integers are available.
    pub int64: bool,
    /// 64-bit floats are available.
    pub float64: bool,
    /// Subgroup operations are available in compute shaders.
    pub subgroups: bool,
    /// Arrays of textures may be indexed by values known only at run time.
    pub texture_array_indexing: bool,
    /// Parameter blocks up to this many bytes travel as push constants.
    pub max_push_constant_bytes: u32,
    /// Largest workgroup, per axis.
    pub max_workgroup_size: [u32; 3],
    /// Most invocations of one workgroup.
    pub max_workgroup_invocations: u32,
    /// Most bytes of workgroup memory.
    pub max_workgroup_memory: u32,
}

/// What an entry point does to a binding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// It reads it.
    pub read: bool,
    /// It writes it; atomics do both.
    pub write: bool,
}

/// The one table of binding kinds: variant, name in a declared schema, name for a registered shader, whether it is
/// a buffer.
macro_rules! binding_kinds {
    ($($(#[$doc:meta])* $variant:ident $declared:literal $registered:literal $buffer:literal;)*) => {
        /// What a binding is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum BindingKind { $($(#[$doc])* $variant),* }

        impl BindingKind {
            /// Every kind.
            pub const ALL: &'static [BindingKind] = &[$(BindingKind::$variant),*];
            /// Name in a declared schema; empty where a schema cannot declare it.
            #[must_use]
            pub const fn declared_name(self) -> &'static str {
                match self { $(Self::$variant => $declared),* }
            }
            /// Name in the bindings of a registered shader.
            #[must_use]
            pub const fn registered_name(self) -> &'static str {
                match self { $(Self::$variant => $registered),* }
            }
            /// Whether a buffer is bound to it.
            #[must_use]
            pub const fn is_buffer(self) -> bool {
                match self { $(Self::$variant => $buffer),* }
            }
        }
    };
}

binding_kinds! {
    /// `var<storage>`.
    StorageBuffer "buffer" "storage_buffer" true;
    /// `var<uniform>`.
    UniformBuffer "" "uniform_buffer" true;
    /// `texture_2d<f32>`.
    Texture2d "texture2d" "texture_2d" false;
    /// `texture_3d<f32>`.
    Texture3d "texture3d" "texture_3d" false;
    /// `texture_storage_2d`.
    Storage2d "storage2d" "storage_2d" false;
    /// `texture_storage_3d`.
    Storage3d "storage3d" "storage_3d" false;
    /// `sampler`.
    Sampler "sampler" "sampler" false;
}

impl BindingKind {
    /// From the name in a declared schema.
    #[must_use]
    pub fn from_declared_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|k| !name.is_empty() && k.declared_name() == name)
    }

    /// Names that a declared schema may use.
    #[must_use]
    pub fn declared_names() -> Vec<&'static str> {
        Self::ALL.iter().map(|k| k.declared_name()).filter(|n| !n.is_empty()).collect()
    }

    /// The access of a declared binding that says none.
    #[must_use]
    pub const fn default_access(self) -> DeclaredAccess {
        // A storage texture that is only written works on every device and in every format.
        if self.is_storage_texture() { DeclaredAccess::Write } else { DeclaredAccess::ReadWrite }
    }

    /// Whether a schema may declare an array of it.
    #[must_use]
    pub const fn can_be_array(self) -> bool {
        matches!(self, Self::Texture2d | Self::Texture3d | Self::Sampler)
    }

    /// Whether shaders write it as a storage texture.
    #[must_use]
    pub const fn is_storage_texture(self) -> bool {
        matches!(self, Self::Storage2d | Self::Storage3d)
    }
}

/// How a declared storage binding may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeclaredAccess {
    /// `read`.
    Read,
    /// `write`; for a buffer the same as `read_write`, since WGSL has no write-only buffers.
    Write,
    /// `read_write`.
    ReadWrite,
}

impl DeclaredAccess {
    /// Names in a declared schema.
    pub const NAMES: &'static [&'static str] = &["read", "write", "read_write"];

    /// From the name in a declared schema.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "read" => Some(Self::Read),
            "write" => Some(Self::Write),
            "read_write" => Some(Self::ReadWrite),
            _ => None,
        }
    }
}

/// One declared binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindingDecl {
    /// The variable's name in the source.
    pub name: String,
    /// What it is.
    pub kind: BindingKind,
    /// How it may be used.
    pub access: DeclaredAccess,
    /// WGSL type of an array element of a storage buffer, of the whole variable for a uniform buffer; not looked at
    /// for the other kinds.
    pub element: String,
    /// Texels of a storage texture; not looked at for the other kinds.
    pub format: Format,
    /// Textures in an array of them; one texture without.
    pub array: Option<u32>,
}

impl BindingDecl {
    /// A storage buffer of `array<element>`.
    pub fn buffer(name: impl Into<String>, access: DeclaredAccess, element: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: BindingKind::StorageBuffer,
            access,
            element: element.into(),
            format: Format::Rgba16f,
            array: None,
        }
    }
}

/// The one table of parameter types: variant, name in a schema, WGSL spelling, components.
macro_rules! param_types {
    ($($variant:ident $name:literal $wgsl:literal $components:literal;)*) => {
        /// Type of a parameter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ParamType { $(#[doc = concat!("`", $name, "`, in WGSL `", $wgsl, "`.")] $variant),* }

        impl ParamType {
            /// Every type.
            pub const ALL: &'static [ParamType] = &[$(ParamType::$variant),*];
            /// Names as a schema spells them.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// From the name in a schema.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }
            /// Name in a schema.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
            /// The type of the struct member. A `bool` is a `u32`: WGSL's own bool has no layout.
            #[must_use]
            pub const fn wgsl(self) -> &'static str {
                match self { $(Self::$variant => $wgsl),* }
            }
            /// Scalars it is made of.
            #[must_use]
            pub const fn components(self) -> usize {
                match self { $(Self::$variant => $components),* }
            }
        }
    };
}

param_types! {
    F32 "f32" "f32" 1;
    I32 "i32" "i32" 1;
    U32 "u32" "u32" 1;
    Bool "bool" "u32" 1;
    Vec2 "vec2" "vec2<f32>" 2;
    Vec3 "vec3" "vec3<f32>" 3;
    Vec4 "vec4" "vec4<f32>" 4;
    Mat4 "mat4" "mat4x4<f32>" 16;
}

/// One declared parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamDecl {
    /// The member's name: the source reads `params.name`.
    pub name: String,
    /// Its type.
    pub ty: ParamType,
    /// Its value until it is set; the first [`ParamType::components`] count.
    pub default: [f64; 16],
}

/// Where a program's interface comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum Interface {
    /// From these lists; the source declares nothing.
    Declared {
        /// In binding order.
        bindings: Vec<BindingDecl>,
        /// In the order of the block.
        params: Vec<ParamDecl>,
    },
    /// From the source's own declarations.
    Reflected {
        /// The number of bindings, to be checked against the source.
        bindings: Option<u32>,
        /// Bindings that the source must not write.
        read_only: Option<Vec<u32>>,
        /// Kind, and for storage textures the format, of each binding, to be checked against the source.
        kinds: Option<Vec<(BindingKind, Option<Format>)>>,
    },
}

impl Interface {
    /// From the source alone.
    pub const REFLECTED: Self = Self::Reflected { bindings: None, read_only: None, kinds: None };
}

/// A program before it is compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramSource {
    /// What it is registered under.
    pub key: String,
    /// WGSL.
    pub source: String,
    /// Entry point; without it `main`, or the only compute entry point there is.
    pub entry_point: Option<String>,
    /// Its interface.
    pub interface: Interface,
    /// What tools call its dispatches; the key without one.
    pub label: Option<String>,
    /// The file its source was read from, which errors name; the key without one.
    pub file: Option<String>,
    /// Where the lines of `source` come from; [`expand`](super::expand) fills it in.
    pub map: SourceMap,
}

impl ProgramSource {
    /// A program without includes whose entry point is the usual one.
    pub fn new(key: impl Into<String>, source: impl Into<String>, interface: Interface) -> Self {
        let (key, source) = (key.into(), source.into());
        Self { key, source, entry_point: None, interface, label: None, file: None, map: SourceMap::default() }
    }

    /// What errors call its source.
    #[must_use]
    pub fn file(&self) -> &str {
        self.file.as_deref().unwrap_or(&self.key)
    }
}

/// One binding of a compiled program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The variable's name.
    pub name: Box<str>,
    /// Its number in group 0.
    pub binding: u32,
    /// What it is.
    pub kind: BindingKind,
    /// What the entry point really does to it; neither when it is not used or only asked for its length.
    pub access: Access,
    /// Bytes of the smallest buffer that can be bound: a runtime-sized array counts as one element. 0 for textures.
    pub min_bytes: u64,
    /// Texels of a storage texture.
    pub format: Option<Format>,
    /// Textures in it: 1 unless it is an array of them.
    pub count: u32,
}

/// How the parameter block reaches the shader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParamPlacement {
    /// There is none.
    #[default]
    None,
    /// As push constants from offset 0.
    PushConstants,
    /// As a uniform buffer.
    Uniform {
        /// Its number in group 0, behind the declared bindings.
        binding: u32,
    },
}

/// One parameter in the block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamField {
    /// Its name.
    pub name: Box<str>,
    /// Its type.
    pub ty: ParamType,
    /// Offset in the block, in bytes, as naga lays it out.
    pub offset: u32,
}

/// A parameter block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamLayout {
    /// How it travels.
    pub placement: ParamPlacement,
    /// Its size, a multiple of 4.
    pub bytes: u32,
    /// Its members, in declared order.
    pub fields: Vec<ParamField>,
    /// The block with every parameter at its default.
    pub defaults: Vec<u8>,
}

impl ParamLayout {
    /// Index of a parameter, for [`ParamLayout::write_field`].
    #[must_use]
    pub fn find(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|f| *f.name == *name)
    }

    /// Writes one component of a parameter into a block. False, and nothing written, when there is no such one.
    pub fn write(&self, block: &mut [u8], name: &str, component: usize, value: f64) -> bool {
        self.find(name).is_some_and(|field| self.write_field(block, field, component, value))
    }

    /// [`ParamLayout::write`] by index. Integers take the nearest value of their range.
    pub fn write_field(&self, block: &mut [u8], field: usize, component: usize, value: f64) -> bool {
        let Some(field) = self.fields.get(field) else { return false };
        if component >= field.ty.components() {
            return false;
        }
        // Vectors and the columns of a 4x4 matrix are packed without gaps.
        let at = field.offset as usize + 4 * component;
        let Some(slot) = block.get_mut(at..at + 4) else { return false };
        slot.copy_from_slice(&match field.ty {
            ParamType::I32 => (value as i32).to_le_bytes(),
            ParamType::U32 => (value as u32).to_le_bytes(),
            ParamType::Bool => u32::from(value != 0.0).to_le_bytes(),
            _ => (value as f32).to_le_bytes(),
        });
        true
    }
}
