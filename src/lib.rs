//! Immediate-mode Vulkan compute: record typed commands, end the frame, poll for what comes back.
//!
//! # The model
//!
//! - **One ordered stream.** Creates, writes, parameter changes, dispatches and reads take effect in the order they
//!   are called. A read sees every dispatch and write before it, whatever frame they are in.
//! - **A frame is recorded, then planned, then submitted.** A verb validates its arguments and appends one small
//!   plain struct to the frame's [`arena`]. [`Gpu::end_frame`] turns the arena into a [`plan`]: commands fall into
//!   levels of work that does not depend on each other, with one memory barrier between levels. The number of
//!   barriers is the length of the longest dependency chain, not the number of dispatches. The plan becomes one
//!   command buffer.
//! - **Nothing waits.** Programs compile on a worker thread and become ready in a later frame. A readback is a key to
//!   poll; asking for its state reads a counter. The one wait on the frame path is the bound on frames in flight, and
//!   every wait has a limit.
//! - **Failures are data.** A refused call changes nothing and says which argument, what was given and what is
//!   accepted. A dispatch that cannot run is a row of [`Gpu::failing`] until its next good run.
//!
//! # Example
//!
//! ```
//! use ashfall::{BufferDesc, DeviceOptions, Gpu};
//! use ashfall::shader::{Interface, ProgramSource};
//!
//! # fn main() -> Result<(), ashfall::Error> {
//! let mut gpu = Gpu::open(&DeviceOptions::default())?;
//! let program = gpu.compile(ProgramSource::new(
//!     "double",
//!     "
//!         @group(0) @binding(0) var<storage, read_write> data: array<u32>;
//!         @compute @workgroup_size(64)
//!         fn main(@builtin(global_invocation_id) id: vec3<u32>) {
//!             if id.x < arrayLength(&data) { data[id.x] *= 2u; }
//!         }
//!     ",
//!     Interface::REFLECTED,
//! ))?;
//! gpu.wait_program(program)?; // or go on with other frames until it is ready
//!
//! let data = gpu.create_buffer("data", BufferDesc::new(4 * 100))?;
//! let numbers: Vec<u32> = (0..100).collect();
//! gpu.write_buffer(data, 0, bytemuck::cast_slice(&numbers))?;
//! gpu.dispatch(program, &[data], [2, 1, 1])?;
//! let key = gpu.read_buffer(data)?;
//! let frame = gpu.end_frame()?;
//! assert_eq!((frame.commands, frame.barriers), (3, 2)); // write, then double, then read
//!
//! let bytes = gpu.wait_read(key)?; // or poll `read_state` once a frame
//! let words: Vec<u32> = bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
//! assert!(words.iter().enumerate().all(|(i, w)| *w == 2 * i as u32));
//! # Ok(())
//! # }
//! ```
//!
//! # Lifetimes
//!
//! Ids are generational: one kept past its object's end names nothing. Destroying an object takes its name away at
//! once; its memory is freed when the frames that use it have completed. A readback key lives until its bytes are
//! taken.
//!
//! # Resources
//!
//! Buffers and textures share one ordered stream and one hazard table. A texture is kept in one image layout for
//! life: a change of layout would need a barrier for that texture alone. New resources read as zeros. A dispatch takes
//! a list of [`Bind`]s, one a binding in binding order; [`Gpu::dispatch`] is the short form for buffers. Sources may
//! `#include` other files, see [`Gpu::set_includes`] and [`shader::BUILT_IN`].
//!
//! # Hierarchies
//!
//! [`Gpu::build_bvh`] makes a bounding volume hierarchy over placed meshes at once; [`Gpu::begin_bvh`],
//! [`Gpu::step_bvh`] and [`Gpu::finish_bvh`] make the same bytes in slices that hold no frame up. Shaders read it
//! through `#include "ashfall/bvh_trace.wgsl"`; [`bvh`] has the layout.
//!
//! # Scripts and their neighbours
//!
//! [`ScriptHost`] runs Luau scripts on a [`Gpu`]; [`TYPES`] describes what they see. What scripts reach beside the
//! device comes through the traits in [`ScriptOptions`], each with an implementation that works:
//!
//! | trait | for scripts | by default |
//! |---|---|---|
//! | [`asset::Assets`] | `asset`, and names of shaders and meshes | [`asset::FolderAssets`] |
//! | [`Meshes`] | `meshcpu`, `dispatchOnVertices` | [`StoredMeshes`] |
//! | [`Services`] | `profiler`, `renderer`, `substrate` | [`DeviceServices`] |
//! | [`Modules`] | `require` of paths that are no files | [`NoModules`] |
//!
//! # GPU time
//!
//! [`Gpu::gpu_frame`] answers the times of the last frame that was timed, by label; asking times the next
//! frames. A timestamp is written where a level begins, not behind each dispatch, so that timing changes neither the
//! barriers nor what runs side by side.
//!
//! # Costs
//!
//! | | |
//! |---|---|
//! | dispatch | no heap, hash or string; 64 bytes of arena for two buffers and 16 bytes of parameters |
//! | write | one copy into upload memory, one command |
//! | read | one command; one copy when the bytes are taken |
//! | end of frame | linear in the commands; one submission |
//! | new buffer | one allocation; a zero fill with its first use, unless that overwrites it whole |
//!
//! # What it does not do
//!
//! It draws nothing and presents nothing. It does not run commands on several queues. It does not share a [`Gpu`]
//! between threads: move it, or open another.
#![deny(unsafe_code)]

pub mod arena;
pub mod asset;
pub mod bvh;
pub mod command;
mod error;
mod files;
mod gpu;
pub mod handle;
pub mod inspect;
pub mod luau;
pub mod mesh;
pub mod plan;
mod readback;
mod record;
mod registry;
pub mod ring;
pub mod shader;
pub mod texture;
#[allow(unsafe_code)] // Vulkan is unsafe throughout; `vk` says what it keeps true.
mod vk;

pub use error::{Error, Result};
pub use files::read_beside;
pub use gpu::Includes;
pub use gpu::{BvhId, FrameStats, Gpu, Hierarchy};
pub use inspect::DispatchRecord;
pub use luau::{DeviceServices, Meshes, Modules, NoModules, ScriptHost, ScriptOptions, Services, StoredMeshes, TYPES};
pub use readback::{ReadKey, ReadState, Readback, key_text, parse_key};
pub use record::{FormatSupport, Limits};
pub use registry::{
    Bind, BufferDesc, BufferId, BufferKind, ProgramId, ProgramKind, ProgramState, Resource, Sampler, SamplerId,
    SamplerKind, Shape, TextureId, TextureKind,
};
pub use vk::{DeviceInfo, DeviceOptions, DeviceReport, MemoryUse, Verdict, devices};
