//! A steady frame of the Rust API allocates nothing. Its own binary: it counts every allocation of the process's
//! Rust side.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, unsafe_code, reason = "tests")]

mod common;

use ashfall::shader::DeclaredAccess::{Read, ReadWrite};
use ashfall::{BufferDesc, BufferId, Gpu, ReadKey};
use common::{declared, open_with, options, program, with};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        COUNT.with(|c| c.set(c.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.realloc(ptr, layout, new) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn frame(gpu: &mut Gpu, kernel: ashfall::ProgramId, buffers: &[BufferId], keys: &mut [ReadKey; 3], n: usize) -> u64 {
    let before = COUNT.with(Cell::get);
    for (i, pair) in buffers.windows(2).enumerate() {
        gpu.set_param(kernel, "k", 0, (n + i) as f64).unwrap();
        gpu.dispatch(kernel, pair, [1, 1, 1]).unwrap();
    }
    gpu.write_buffer(buffers[0], 0, &[n as u8; 64]).unwrap();
    let slot = n % 3;
    _ = gpu.take_read(keys[slot], |bytes| assert_eq!(bytes.len(), 256));
    keys[slot] = gpu.read_buffer(buffers[buffers.len() - 1]).unwrap();
    gpu.end_frame().unwrap();
    COUNT.with(Cell::get) - before
}

#[test]
fn a_steady_frame_allocates_nothing() {
    // Without the layer: it is not ours to count, and it may call back into us.
    let gpu = open_with(&ashfall::DeviceOptions { validation: false, labels: false, ..options() });
    with(&gpu, |gpu| {
        let source = "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) { dst[id.x] = src[id.x] + params.k; }";
        let kernel = program(gpu, declared("k", source, &[("src", Read), ("dst", ReadWrite)], &["k"]));
        let buffers: Vec<BufferId> =
            (0..65).map(|i| gpu.create_buffer(&format!("b{i}"), BufferDesc::new(256)).unwrap()).collect();
        let mut keys = [ReadKey::default(); 3];
        for n in 0..200 {
            frame(gpu, kernel, &buffers, &mut keys, n);
        }
        let counts: Vec<u64> = (200..400).map(|n| frame(gpu, kernel, &buffers, &mut keys, n)).collect();
        assert_eq!(counts.iter().sum::<u64>(), 0, "allocations per frame: {counts:?}");
    });
}
