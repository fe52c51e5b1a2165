//! The SPIR-V capabilities of a target.

use super::schema::Target;
use naga::back::spv;

/// What the module may ask of the device. naga has plain code for some of what is missing here: packed dot products
/// and bytes.
pub(super) fn of(target: &Target) -> naga::FastHashSet<spv::Capability> {
    use spv::Capability as C;
    let groups: [(bool, &[C]); 6] = [
        (true, &[C::Shader, C::ImageQuery, C::StorageImageExtendedFormats]),
        (target.float16, &[C::Float16, C::StorageBuffer16BitAccess, C::UniformAndStorageBuffer16BitAccess]),
        (target.int64, &[C::Int64]),
        (target.float64, &[C::Float64]),
        (
            target.subgroups,
            &[
                C::GroupNonUniform,
                C::GroupNonUniformVote,
                C::GroupNonUniformArithmetic,
                C::GroupNonUniformBallot,
                C::GroupNonUniformShuffle,
                C::GroupNonUniformShuffleRelative,
                C::GroupNonUniformQuad,
            ],
        ),
        (target.texture_array_indexing, &[C::SampledImageArrayDynamicIndexing]),
    ];
    groups.iter().filter(|(has, _)| *has).flat_map(|(_, list)| list.iter().copied()).collect()
}
