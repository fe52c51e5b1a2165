//! Assets that come with the crate, under the root `@builtin`.

/// Path without the extension, WGSL, `bindings.yaml`.
pub(super) const BUILT_IN: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/built_in_assets.rs"));

/// The root they are under.
pub(super) const ROOT: &str = "builtin";

#[cfg(test)]
mod tests {
    use super::super::{AssetKind, Assets, FolderAssets};
    use crate::shader;

    #[test]
    fn every_built_in_shader_compiles() {
        let mut assets = FolderAssets::new(Vec::new());
        let list = assets.list();
        assert!(list.iter().any(|a| a.identity == "@builtin::shaders.compute_double"), "{list:?}");
        for asset in list.iter().filter(|a| a.kind == AssetKind::ComputeShader) {
            let mut source = assets.shader(&asset.guid).unwrap();
            shader::check_interface(&source).unwrap();
            shader::expand(&mut source, &|_| None).unwrap();
            shader::compile(&source, &shader::tests::target()).unwrap_or_else(|e| panic!("{}: {e}", asset.identity));
        }
    }
}
