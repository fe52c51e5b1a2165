//! Sources that once brought the compiler down or were judged wrongly.

use super::*;

/// Chains that naga walks by recursion are refused before they fill the stack; just below, they compile.
#[test]
fn long_chains_cannot_take_the_process_down() {
    let chain = |n: usize| -> Vec<String> {
        let body =
            |text: String| format!("@compute @workgroup_size(1) fn main() {{ var y = 1u; var b = true; {text} }}");
        vec![
            body(format!("let x = y{};", "+y".repeat(n))),
            body(format!("let x = {}1;", "- ".repeat(n))),
            body(format!("if b {{}} {}", "else if b { y = 4u; } ".repeat(n / 4))),
            body(format!("var v = vec4(y); let x = v{};", ".xyzw".repeat(n))),
            body(format!("let x = b{};", "&&b".repeat(n / 2))),
            body(format!("let x = y + (y + min(y{}, y));", "+y".repeat(n))),
        ]
    };
    for source in chain(60_000) {
        let error = fail(&raw(&source));
        assert_eq!((error.stage, error.line), (Stage::Parse, Some(1)));
        assert!(error.message.starts_with("more than "), "{error}");
    }
    for source in chain(1_900) {
        assert!(compile(&raw(&source), &target()).is_ok());
    }
    let constants: String = (1..20_000).rev().map(|i| format!("const c{i} = c{} + 0;\n", i - 1)).collect();
    let error = fail(&raw(&format!("{constants}const c0 = 1;\n{HEAD}{{}}")));
    assert!(error.message.contains("declarations"), "{error}");
    // Comments, and lists however long, are no chains.
    let list = "-1.5, 2.5 + 3.0, ".repeat(3_000);
    let source =
        format!("/* {0} /* {0} */ */ // {0}\nconst t = array<f32, 6000>({list});\n{HEAD}{{}}", "+".repeat(5_000));
    assert!(compile(&raw(&source), &target()).is_ok());
    let counted = Interface::Reflected { bindings: Some(1), read_only: None, kinds: None };
    let deep = ProgramSource { interface: counted, ..raw(&chain(60_000)[0]) };
    assert!(check_interface(&deep).is_ok(), "left to the compile");
}

/// Settling overrides, or choosing one entry point of many, takes nothing out of the interface.
#[test]
fn unused_bindings_stay_in_the_interface() {
    use DeclaredAccess::ReadWrite;
    let several =
        "@compute @workgroup_size(1) fn other() { a[0] = 1u; }\n@compute @workgroup_size(1) fn main() { b[0] = 2u; }";
    let overridden = "override n: u32 = 4;\n@compute @workgroup_size(n) fn main() { b[0] = 2u; }";
    for source in [several, overridden] {
        let p = declared(source, &[("a", ReadWrite, "u32"), ("b", ReadWrite, "u32")], &[("s", ParamType::F32)]);
        let compiled = compile(&p, &target()).unwrap();
        let got: Vec<(&str, bool)> = compiled.bindings.iter().map(|b| (&*b.name, b.access.write)).collect();
        assert_eq!(got, [("a", false), ("b", true)], "{source}");
        assert_eq!(compiled.params.bytes, 4);
    }
}

#[test]
fn overrides_without_a_value_are_shown() {
    let error = fail(&raw("// c\noverride n: u32;\n@compute @workgroup_size(n) fn main() {}"));
    assert_eq!((error.stage, error.line), (Stage::Interface, Some(2)), "{error}");
    let error = fail(&raw("@id(7) override n: u32;\n@compute @workgroup_size(n) fn main() {}"));
    assert_eq!(error.line, Some(1), "{error}");
    let error = fail(&raw("override n: i32 = -1;\n@compute @workgroup_size(n) fn main() {}"));
    assert!(!error.to_string().contains("default"), "{error}");
}

/// What is left open runs into the generated declarations; the author's last line is at fault, not a binding.
#[test]
fn a_source_cut_short_is_shown_at_its_end() {
    use DeclaredAccess::ReadWrite;
    let cases = [
        ("// x\n@compute @workgroup_size(1) fn main() {\n b[0] = 1u;\n\n", (3, 12)),
        ("@compute @workgroup_size(1) fn main() { b[0] = 1u; }\nconst x = 1", (2, 12)),
    ];
    for (source, place) in cases {
        for p in [declared(source, &[("b", ReadWrite, "u32")], &[("s", ParamType::F32)]), raw(source)] {
            let error = fail(&p);
            assert_eq!((error.line, error.column), (Some(place.0), Some(place.1)), "{error}");
            assert!(error.message.contains("the end of the source"), "{error}");
        }
    }
}

#[test]
fn errors_in_declared_entries_name_them() {
    use DeclaredAccess::ReadWrite;
    let error = fail(&declared(&format!("fn b() {{}}\n{HEAD}{{}}"), &[("b", ReadWrite, "u32")], &[]));
    assert_eq!((error.field.as_deref(), error.line), (Some("bindings[1].name"), None));
    assert!(error.to_string().contains("previous definition of `b`, at 1:4"), "{error}");
    for params in [&[][..], &[("s", ParamType::F32)]] {
        let own = "// x\nvar<immediate> mine: u32;\n@compute @workgroup_size(1) fn main() { b[0] = mine; }";
        let error = fail(&declared(own, &[("b", ReadWrite, "u32")], params));
        assert_eq!((error.stage, error.line), (Stage::Interface, Some(2)), "{error}");
    }
}

#[test]
fn element_types_and_reserved_names_are_checked_at_the_call() {
    use DeclaredAccess::Read;
    for element in ["u32, 4", "u32>", "vec4<f32", "a>b<c", "<", ">", ","] {
        let refused = check_interface(&declared("", &[("a", Read, element)], &[])).err();
        assert_eq!(refused.map(|e| e.field).as_deref(), Some("bindings[1].element"), "{element}");
    }
    assert!(check_interface(&declared("", &[("a", Read, "array<vec4<f32>, 4>")], &[])).is_ok());
    // What is refused here is what naga would refuse later.
    for word in naga::keywords::wgsl::RESERVED {
        let p = declared(&format!("{HEAD}{{}}"), &[(word, Read, "u32")], &[]);
        assert!(check_interface(&p).is_err() && compile(&p, &target()).is_err(), "{word}");
    }
}

/// The device is asked for no feature that the target does not name.
#[test]
fn only_named_capabilities_are_used() {
    let source =
        |body: &str| format!("@group(0) @binding(0) var<storage, read_write> a: array<u32>;\n{HEAD}{{ {body} }}");
    let used = |words: &[u32]| -> Vec<u32> {
        let (mut at, mut list) = (5, Vec::new());
        while at < words.len() {
            if words[at] & 0xFFFF == 17 {
                list.push(words[at + 1]);
            }
            at += (words[at] >> 16) as usize;
        }
        list
    };
    for body in [
        "a[0] = dot4U8Packed(a[1], a[2]);",
        "a[0] = pack4xU8(unpack4xU8(a[1]));",
        "a[0] = pack2x16float(unpack2x16float(a[1]));",
    ] {
        assert_eq!(used(&compile(&raw(&source(body)), &target()).unwrap().spirv), [1], "{body}");
    }
    let f16 = Target { float16: true, ..target() };
    let p = raw(&format!("enable f16;\n{}", source("var h = f16(a[0]); h += 1.0h; a[0] = u32(h);")));
    let capabilities = used(&compile(&p, &f16).unwrap().spirv);
    assert!(capabilities.contains(&9) && !capabilities.contains(&4436), "Float16, but no 16-bit stage inputs");
}
