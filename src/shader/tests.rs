//! Interfaces, layouts, reflection and errors. No GPU.

use super::*;
use proptest::prelude::*;

mod robustness;

pub(crate) fn target() -> Target {
    Target {
        robust_buffer_access2: true,
        zero_init_workgroup_memory: true,
        float16: false,
        int64: false,
        float64: false,
        subgroups: false,
        texture_array_indexing: false,
        max_push_constant_bytes: 128,
        max_workgroup_size: [256, 256, 64],
        max_workgroup_invocations: 256,
        max_workgroup_memory: 16384,
    }
}

fn raw(source: &str) -> ProgramSource {
    let interface = Interface::REFLECTED;
    ProgramSource::new("k", source, interface)
}

fn declared(source: &str, bindings: &[(&str, DeclaredAccess, &str)], params: &[(&str, ParamType)]) -> ProgramSource {
    let bindings =
        bindings.iter().map(|(name, access, element)| BindingDecl::buffer(*name, *access, *element)).collect();
    let params = params.iter().map(|(n, ty)| ParamDecl { name: (*n).into(), ty: *ty, default: [0.0; 16] }).collect();
    ProgramSource { interface: Interface::Declared { bindings, params }, ..raw(source) }
}

fn fail(p: &ProgramSource) -> ShaderError {
    match compile(p, &target()) {
        Ok(_) => panic!("compiled: {}", p.source),
        Err(error) => error,
    }
}

const HEAD: &str = "@compute @workgroup_size(1) fn main() ";

/// Every refusal: stage, author's line, a part of the message.
#[test]
fn errors() {
    use Stage::*;
    let cases: &[(&str, Stage, Option<u32>, &str)] = &[
        ("", Interface, None, "no @compute entry point"),
        ("fn main( {", Parse, Some(1), "identifier"),
        ("// one\n// two\nfn f() -> u32 { return x; }", Parse, Some(3), "x"),
        ("// one\r\nfn f() -> u32 { return x; }\r\n", Parse, Some(2), "x"),
        ("@compute @workgroup_size(1)\nfn main() { let a: u32 = 1.5; }", Parse, Some(2), "u32"),
        (
            "@group(0) @binding(0) var<storage> a: array<u32>;\n@compute @workgroup_size(1)\nfn main() { a[0] = 1u; }",
            Validate,
            Some(3),
            "",
        ),
        ("@fragment fn main() {}", Interface, None, "no @compute entry point"),
        (
            "@compute @workgroup_size(1) fn a() {} @compute @workgroup_size(1) fn b() {}",
            Interface,
            None,
            "there are: a, b",
        ),
        (
            "@group(1) @binding(0) var<storage> a: array<u32>;\n@compute @workgroup_size(1) fn main() {}",
            Interface,
            Some(1),
            "@group(1)",
        ),
        (
            "\n@group(0) @binding(1) var<storage> a: array<u32>;\n@compute @workgroup_size(1) fn main() {}",
            Interface,
            Some(2),
            "leaves a gap",
        ),
        (
            "@group(0) @binding(0) var<storage> a: array<u32>;\n@group(0) @binding(0) var<storage> b: array<u32>;\n@compute @workgroup_size(1) fn main() {}",
            Interface,
            None,
            "share @binding(0)",
        ),
        (
            "@group(0) @binding(0) var t: texture_2d<u32>;\n@compute @workgroup_size(1) fn main() {}",
            Interface,
            Some(1),
            "this kind of texture is not known",
        ),
        (
            "var<immediate> p: u32;\n@compute @workgroup_size(1) fn main() { _ = p; }",
            Interface,
            Some(1),
            "var<immediate>",
        ),
        ("override n: u32;\n@compute @workgroup_size(1) fn main() { _ = n; }", Interface, None, "override"),
        ("@compute @workgroup_size(257) fn main() {}", Limits, None, "257 along x; the device takes 1 to 256"),
        ("@compute @workgroup_size(1, 1, 65) fn main() {}", Limits, None, "65 along z"),
        ("@compute @workgroup_size(32, 32) fn main() {}", Limits, None, "1024 invocations; the device takes 256"),
        (
            "var<workgroup> w: array<u32, 5000>;\n@compute @workgroup_size(1) fn main() { w[0] = 1u; }",
            Limits,
            None,
            "20000 bytes; the device has 16384",
        ),
        ("enable f16;\n@compute @workgroup_size(1) fn main() { var a = 1.0h; a += 1.0h; }", Validate, None, ""),
    ];
    for (source, stage, line, part) in cases {
        let error = fail(&raw(source));
        assert_eq!(error.stage, *stage, "{source}\n{error}");
        if line.is_some() {
            assert_eq!(error.line, *line, "{source}\n{error}");
            assert!(error.to_string().starts_with(&format!("k:{}:", line.unwrap())), "{error}");
        }
        assert!(error.message.contains(part), "{source}\n{error}");
    }
}

#[test]
fn an_error_shows_the_line_and_marks_the_place() {
    let error = fail(&raw("// head\nfn f() -> u32 {\n\treturn missing;\n}"));
    assert_eq!((error.line, error.column), (Some(3), Some(9)));
    let text = error.to_string();
    assert!(text.contains("\n   |\n 3 | \treturn missing;\n   | \t       ^^^^^^^"), "{text}");
}

/// Generated declarations are behind the author's text: they move no line and own their faults.
#[test]
fn generated_lines_are_never_counted() {
    use DeclaredAccess::ReadWrite;
    for (tail, line) in [("", 2), ("\n", 2), ("// the end", 2), ("\r\n", 2)] {
        let source = format!("// first\n{HEAD}{{ a[0] = missing; }}{tail}");
        let error = fail(&declared(&source, &[("a", ReadWrite, "u32")], &[("s", ParamType::F32)]));
        assert_eq!(error.line, Some(line), "{error}");
    }
    let source = format!("enable f16;\n{HEAD}{{ a[0] = 1u; }} // no newline");
    let f16 = Target { float16: true, ..target() };
    assert!(compile(&declared(&source, &[("a", ReadWrite, "u32")], &[]), &f16).is_ok(), "directives stay first");
    let error = fail(&declared(&format!("{HEAD}{{}}"), &[("a", ReadWrite, "u32"), ("b", ReadWrite, "Missing")], &[]));
    assert!(error.to_string().starts_with("k: bindings[2].element: "), "{error}");
    let error = fail(&declared(&format!("{HEAD}{{ /* never closed"), &[("a", ReadWrite, "u32")], &[]));
    assert!(error.line.is_none_or(|l| l == 1), "{error}");
    let error = fail(&declared(&format!("@group(0) @binding(5) var<storage> own: array<u32>;\n{HEAD}{{}}"), &[], &[]));
    assert!(error.message.contains("list it in bindings"), "{error}");
}

/// An array needs a directive in front of everything; lines and columns stay the author's.
#[test]
fn arrays_of_textures_move_no_column() {
    let array = |source: &str| {
        let mut p = declared(source, &[], &[]);
        let Interface::Declared { bindings, .. } = &mut p.interface else { unreachable!() };
        let texture = BindingDecl::buffer("pair", DeclaredAccess::Read, "f32");
        bindings.push(BindingDecl { kind: BindingKind::Texture2d, array: Some(2), ..texture });
        p
    };
    let good = "@compute @workgroup_size(1) fn main() { _ = textureLoad(pair[1], vec2<u32>(), 0); }";
    let compiled = compile(&array(good), &target()).unwrap();
    assert_eq!((compiled.bindings[0].count, compiled.bindings[0].kind), (2, BindingKind::Texture2d));
    let error = fail(&array("fn f() -> u32 { return oops; }\n// end"));
    assert_eq!((error.line, error.column), (Some(1), Some(24)), "{error}");
    assert!(error.to_string().contains(" 1 | fn f() -> u32 { return oops; }"), "{error}");
    let error = fail(&array("// top\nfn f() -> u32 { return oops; }"));
    assert_eq!((error.line, error.column), (Some(2), Some(24)), "{error}");
}

#[test]
fn interfaces_are_checked_at_the_call() {
    use DeclaredAccess::Read;
    let two = "@group(0) @binding(0) var<storage> a: array<u32>; @group(0) @binding(1) var<storage, read_write> b: array<u32>;
        @compute @workgroup_size(1) fn main() { b[0] = a[0]; }";
    let reflected = |source: &str, bindings: Option<u32>, read_only: Option<&[u32]>| ProgramSource {
        interface: Interface::Reflected { bindings, read_only: read_only.map(<[u32]>::to_vec), kinds: None },
        ..raw(source)
    };
    let cases: &[(ProgramSource, Option<&str>)] = &[
        (declared("", &[("a", Read, "u32")], &[]), None),
        (declared("", &[("a", Read, "vec4<f32>"), ("b", Read, "atomic<u32>")], &[("a", ParamType::F32)]), None),
        (declared("", &[("1a", Read, "u32")], &[]), Some("bindings[1].name")),
        (declared("", &[("a", Read, "u32"), ("a", Read, "u32")], &[]), Some("bindings[2].name")),
        (declared("", &[("__a", Read, "u32")], &[]), Some("bindings[1].name")),
        (declared("", &[("a", Read, "u32>; evil")], &[]), Some("bindings[1].element")),
        (declared("", &[("a", Read, " ")], &[]), Some("bindings[1].element")),
        (declared("", &[("params", Read, "u32")], &[]), None),
        (declared("", &[("params", Read, "u32")], &[("s", ParamType::F32)]), Some("bindings[1].name")),
        (declared("", &[], &[("s", ParamType::F32), ("s", ParamType::F32)]), Some("params[2].name")),
        (declared("", &[], &[("a-b", ParamType::F32)]), Some("params[1].name")),
        (reflected(two, None, None), None),
        (reflected(two, Some(2), Some(&[0])), None),
        (reflected(two, Some(3), None), Some("bindings")),
        (reflected(two, Some(0), None), Some("bindings")),
        (reflected(two, None, Some(&[0, 2])), Some("readOnlyBindings[2]")),
        (reflected(two, None, Some(&[1])), Some("readOnlyBindings[1]")),
        (reflected("nonsense", Some(3), Some(&[9])), None),
    ];
    for (program, field) in cases {
        let refused = check_interface(program).err();
        assert_eq!(refused.as_ref().map(|e| e.field.as_str()), *field, "{program:?}: {refused:?}");
    }
}

/// What the entry point really does, whatever the declaration allows.
#[test]
fn access_is_reflected() {
    let body = |text: &str| {
        format!(
            "@group(0) @binding(0) var<storage, read_write> a: array<u32>;
             @group(0) @binding(1) var<storage, read_write> c: array<atomic<u32>>;
             @group(0) @binding(2) var<uniform> u: vec4<u32>;
             fn put(i: u32, v: u32) {{ a[i] = v; }}
             fn through(p: ptr<function, u32>) {{ *p = u.x; }}
             {HEAD}{{ {text} }}"
        )
    };
    let none = Access::default();
    let (read, write, both) =
        (Access { read: true, write: false }, Access { read: false, write: true }, Access { read: true, write: true });
    let cases = [
        ("", [none, none, none]),
        ("var x = a[0]; x += 1u;", [read, none, none]),
        ("a[0] = 1u;", [write, none, none]),
        ("a[0] += 1u;", [both, none, none]),
        ("put(0u, 1u);", [write, none, none]),
        ("var n = arrayLength(&a); n += 1u;", [none, none, none]),
        ("atomicAdd(&c[0], 1u);", [none, both, none]),
        ("var x = 0u; through(&x); a[1] = x;", [write, none, read]),
    ];
    for (text, expected) in cases {
        let compiled = compile(&raw(&body(text)), &target()).unwrap();
        let got: Vec<Access> = compiled.bindings.iter().map(|b| b.access).collect();
        assert_eq!(got, expected, "{text}");
        assert_eq!(compiled.bindings.iter().map(|b| b.min_bytes).collect::<Vec<_>>(), [4, 4, 16]);
    }
}

#[test]
fn smallest_sizes_count_a_trailing_array_once() {
    let source = format!(
        "struct H {{ n: u32, v: vec3<f32>, list: array<vec2<f32>> }}
         @group(0) @binding(0) var<storage> h: H;
         @group(0) @binding(1) var<storage> m: array<mat3x3<f32>>;
         {HEAD}{{ _ = h.n; _ = m[0]; }}"
    );
    let compiled = compile(&raw(&source), &target()).unwrap();
    let sizes: Vec<u64> = compiled.bindings.iter().map(|b| b.min_bytes).collect();
    // n at 0, v at 16, list at 32, the whole rounded up to 16; three columns of 16.
    assert_eq!(sizes, [48, 48]);
}

/// Offsets as WGSL's rules give them by hand.
#[test]
fn parameters_lie_where_wgsl_puts_them() {
    use ParamType::*;
    let cases: &[(&[ParamType], &[u32], u32)] = &[
        (&[F32], &[0], 4),
        (&[F32, I32, U32, Bool], &[0, 4, 8, 12], 16),
        (&[F32, Vec3], &[0, 16], 32),
        (&[Vec3, F32], &[0, 12], 16),
        (&[Vec2, F32, Vec2], &[0, 8, 16], 24),
        (&[F32, Vec4], &[0, 16], 32),
        (&[F32, Mat4, F32], &[0, 16, 80], 96),
        (&[Mat4, Mat4], &[0, 64], 128),
    ];
    for (types, offsets, bytes) in cases {
        let names: Vec<String> = (0..types.len()).map(|i| format!("p{i}")).collect();
        let params: Vec<(&str, ParamType)> = names.iter().map(String::as_str).zip(types.iter().copied()).collect();
        let compiled = compile(&declared(&format!("{HEAD}{{}}"), &[], &params), &target()).unwrap();
        let got: Vec<u32> = compiled.params.fields.iter().map(|f| f.offset).collect();
        assert_eq!((&got[..], compiled.params.bytes), (*offsets, *bytes), "{types:?}");
        assert_eq!(compiled.params.placement, ParamPlacement::PushConstants);
        assert_eq!(compiled.params.defaults.len(), *bytes as usize);
    }
}

#[test]
fn a_block_over_the_limit_becomes_a_uniform_buffer_behind_the_bindings() {
    let params: Vec<(String, ParamType)> = (0..33).map(|i| (format!("p{i}"), ParamType::F32)).collect();
    let params: Vec<(&str, ParamType)> = params.iter().map(|(n, t)| (n.as_str(), *t)).collect();
    let place = |n: usize| {
        let p = declared(
            &format!("{HEAD}{{ a[0] = params.p0; }}"),
            &[("a", DeclaredAccess::ReadWrite, "f32")],
            &params[..n],
        );
        let compiled = compile(&p, &target()).unwrap();
        assert_eq!(compiled.bindings.len(), 1, "the block is no binding of the author's");
        (compiled.params.placement, compiled.params.bytes)
    };
    assert_eq!(place(32), (ParamPlacement::PushConstants, 128));
    assert_eq!(place(33), (ParamPlacement::Uniform { binding: 1 }, 132));
}

#[test]
fn parameters_are_written_by_component_and_type() {
    let layout = ParamLayout {
        placement: ParamPlacement::PushConstants,
        bytes: 32,
        fields: vec![
            ParamField { name: "i".into(), ty: ParamType::I32, offset: 0 },
            ParamField { name: "u".into(), ty: ParamType::U32, offset: 4 },
            ParamField { name: "b".into(), ty: ParamType::Bool, offset: 8 },
            ParamField { name: "v".into(), ty: ParamType::Vec3, offset: 16 },
        ],
        defaults: vec![0; 32],
    };
    let mut block = vec![0; 32];
    let cases: &[(&str, usize, f64, bool)] = &[
        ("i", 0, -3.0, true),
        ("u", 0, 4e9, true),
        ("b", 0, -0.5, true),
        ("v", 2, 1.5, true),
        ("v", 3, 9.0, false),
        ("i", 1, 9.0, false),
        ("x", 0, 9.0, false),
        ("v", usize::MAX, 9.0, false),
    ];
    for (name, component, value, written) in cases {
        assert_eq!(layout.write(&mut block, name, *component, *value), *written, "{name}");
    }
    let word = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    assert_eq!([word(0) as i32, word(8) as i32, word(24) as i32, word(28) as i32], [-3, 1, 1.5f32.to_bits() as i32, 0]);
    assert_eq!(word(4), 4_000_000_000);
}

#[test]
fn types_of_parameters_round_trip_by_name() {
    for ty in ParamType::ALL {
        assert_eq!(ParamType::from_name(ty.name()), Some(*ty));
    }
    assert_eq!(ParamType::from_name("float"), None);
}

#[test]
fn the_entry_point_is_main_the_only_one_or_the_named_one() {
    let two = "@compute @workgroup_size(1) fn a() {} @compute @workgroup_size(2) fn main() {}";
    let named = |name: &str| ProgramSource { entry_point: Some(name.into()), ..raw(two) };
    assert_eq!(compile(&raw(two), &target()).unwrap().workgroup_size, [2, 1, 1]);
    assert_eq!(compile(&named("a"), &target()).unwrap().workgroup_size, [1, 1, 1]);
    assert!(fail(&named("b")).message.contains("\"b\"; there are: a, main"));
    assert_eq!(compile(&raw("@compute @workgroup_size(3) fn only() {}"), &target()).unwrap().entry_point, "only");
    let overridden = raw("override n: u32 = 8; @compute @workgroup_size(n, 2) fn main() {}");
    assert_eq!(compile(&overridden, &target()).unwrap().workgroup_size, [8, 2, 1]);
}

/// Workgroup types carry no layout, whether buffers use them too or not; the words are the same every time.
#[test]
fn variables_outside_buffers_have_no_layout() {
    let source = format!(
        "struct S {{ a: u32, b: array<vec2<f32>, 3> }}
         @group(0) @binding(0) var<storage, read_write> s: S;
         var<workgroup> shared_s: S;
         var<workgroup> own: array<u32, 7>;
         {HEAD}{{ shared_s = s; own[0] = shared_s.a; s.a = own[0]; }}"
    );
    let words = compile(&raw(&source), &target()).unwrap().spirv;
    assert_eq!(words, compile(&raw(&source), &target()).unwrap().spirv);
    let mut strides = 0;
    let mut copies = 0;
    let mut rest = &words[5..];
    while let Some(first) = rest.first() {
        let (instruction, tail) = rest.split_at((first >> 16) as usize);
        match (first & 0xFFFF, instruction) {
            (71, [_, _, 6, _]) => strides += 1, // OpDecorate ArrayStride
            (400, _) => copies += 1,            // OpCopyLogical
            _ => {}
        }
        rest = tail;
    }
    assert_eq!(
        (strides, copies),
        (1, 1),
        "the storage array keeps its stride; the load into workgroup memory converts"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// No text brings the compiler down, and what compiles once compiles the same again.
    #[test]
    fn any_text_is_an_answer(noise in ".{0,60}", cut in 0usize..400, with in prop::sample::select(vec!["", ";", "}", "<", "array<u32>", "@group(0)", "0x", "/*", "var", "1e999", "&"])) {
        let good = "struct S { a: vec3<f32>, b: array<u32, 4> } var<workgroup> w: array<S, 2>;
            @group(0) @binding(0) var<storage, read_write> d: array<S>;
            fn f(x: u32) -> u32 { var y = x; loop { if y > 10u { break; } y += 3u; } return y; }
            @compute @workgroup_size(4, 2) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            w[id.x % 2u] = d[id.x]; workgroupBarrier(); switch f(id.y) { case 1u: { d[0].b[1] = 4u; } default: { d[1] = w[0]; } } }";
        let at = good.char_indices().map(|(i, _)| i).nth(cut).unwrap_or(good.len());
        for text in [noise.clone(), format!("{}{with}{}", &good[..at], &good[at..]), format!("{}{noise}", &good[..at])] {
            let program = declared(&text, &[("x", DeclaredAccess::Read, "u32")], &[("p", ParamType::Vec3)]);
            for program in [raw(&text), program] {
                let _ = check_interface(&program);
                let first = compile(&program, &target());
                prop_assert_eq!(first, compile(&program, &target()));
            }
        }
    }
}
