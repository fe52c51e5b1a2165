#!/usr/bin/env bash
# Installs what the tests need from Debian's packages, then formats, lints and runs every test on lavapipe and on
# SwiftShader, each under the Khronos validation layer with synchronization validation.
#
#   bash tests/all.sh           everything
#   bash tests/all.sh setup     only install, and print the environment of each driver
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# Luau is C++; the loader and lavapipe come as packages.
packages=(g++ libvulkan1 mesa-vulkan-drivers vulkan-validationlayers)
if ! dpkg -s "${packages[@]}" >/dev/null 2>&1; then
    as_root apt-get update -qq
    as_root apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
fi
lavapipe=$(ls /usr/share/vulkan/icd.d/lvp_icd*.json | head -n 1)

# SwiftShader and a validation layer newer than Debian's own are inside Chromium's package. It is unpacked, not
# installed: the browser itself is of no use here.
cache="${XDG_CACHE_HOME:-$HOME/.cache}/ashfall/chromium-common"
if [ ! -f "$cache/complete-2" ]; then
    rm -rf "$cache" && mkdir -p "$cache/package"
    # apt's own user has to be able to write there.
    download=$(mktemp -d) && chmod 755 "$download"
    as_root apt-get update -qq
    (cd "$download" && apt-get download -qq chromium-common 2>/dev/null)
    dpkg-deb -x "$download"/chromium-common_*.deb "$cache/package"
    rm -rf "$download"
    library="$cache/package/usr/lib/chromium"
    mkdir -p "$cache/layers"
    # Debian's manifest describes the older layer, which has no such extension.
    sed -e "s#\"library_path\": *\"[^\"]*\"#\"library_path\": \"$library/libVkLayer_khronos_validation.so\"#" \
        -e 's#"instance_extensions": *\[#&\n{"name": "VK_EXT_layer_settings", "spec_version": "2"},#' \
        /usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json >"$cache/layers/VkLayer_khronos_validation.json"
    printf '{"file_format_version": "1.0.0", "ICD": {"library_path": "%s", "api_version": "1.3.0"}}\n' \
        "$library/libvk_swiftshader.so" >"$cache/swiftshader_icd.json"
    touch "$cache/complete-2"
fi

export VK_LAYER_PATH="$cache/layers"
on() { # driver file, name that the device must have, command...
    local icd=$1 name=$2
    shift 2
    # Loaders before 1.3.207 know the second name only.
    VK_DRIVER_FILES="$icd" VK_ICD_FILENAMES="$icd" ASHFALL_DEVICE="$name" "$@"
}

if [ "${1:-}" = setup ]; then
    echo "export VK_LAYER_PATH=$VK_LAYER_PATH"
    echo "lavapipe:    export VK_DRIVER_FILES=$lavapipe VK_ICD_FILENAMES=$lavapipe"
    echo "SwiftShader: export VK_DRIVER_FILES=$cache/swiftshader_icd.json VK_ICD_FILENAMES=$cache/swiftshader_icd.json"
    exit
fi

cargo fmt --check
cargo clippy --locked --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --quiet
# What one device's sample scripts print and draw is kept and held against the other's.
kept=$(mktemp -d) && trap 'rm -rf "$kept"' EXIT
echo "== lavapipe"
ASHFALL_KEEP="$kept" on "$lavapipe" lavapipe cargo test --locked
echo "== SwiftShader"
ASHFALL_COMPARE="$kept" on "$cache/swiftshader_icd.json" swiftshader cargo test --locked
