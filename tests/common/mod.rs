//! What the GPU tests share: a validated device, one at a time, and the check that validation stayed silent.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "test support")]

use ashfall::shader::{Access, BindingDecl, DeclaredAccess, Interface, ParamDecl, ParamType, ProgramSource};
use ashfall::{BufferId, DeviceOptions, Gpu, ProgramId, ScriptHost, ScriptOptions};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Software drivers are not made for several devices at work in one process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A device under validation. When it goes out of scope it must come to rest without a message.
pub struct TestGpu {
    gpu: Rc<RefCell<Gpu>>,
    _guard: MutexGuard<'static, ()>,
}

pub fn options() -> DeviceOptions {
    DeviceOptions { validation: true, labels: true, ..DeviceOptions::default() }
}

pub fn open() -> TestGpu {
    open_with(&options())
}

pub fn open_with(options: &DeviceOptions) -> TestGpu {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let gpu = Gpu::open(options).expect("a Vulkan device with the validation layer");
    TestGpu { gpu: Rc::new(RefCell::new(gpu)), _guard: guard }
}

impl TestGpu {
    pub fn get(&self) -> impl DerefMut<Target = Gpu> + '_ {
        self.gpu.borrow_mut()
    }

    pub fn host(&self) -> ScriptHost {
        self.host_with(ScriptOptions::default())
    }

    pub fn host_with(&self, options: ScriptOptions) -> ScriptHost {
        ScriptHost::new(Rc::clone(&self.gpu), options).expect("a Luau state")
    }

    /// Runs a script to its end, at most `frames` frames. The errors of its tasks.
    pub fn run(&self, source: &str, frames: usize) -> Vec<String> {
        self.run_on(&self.host(), source, frames)
    }

    fn run_on(&self, host: &ScriptHost, source: &str, frames: usize) -> Vec<String> {
        host.spawn("test.luau", source.as_bytes()).expect("a script that parses");
        let mut errors = Vec::new();
        for _ in 0..frames {
            if host.is_idle() {
                return errors;
            }
            errors.extend(host.step().iter().map(ToString::to_string));
            let stats = host.end_frame().expect("a frame");
            if stats.commands == 0 {
                self.get().wait_for_progress(std::time::Duration::from_millis(20)).expect("progress");
            }
        }
        assert!(host.is_idle(), "the script still runs after {frames} frames; errors so far: {errors:?}");
        errors
    }

    /// A script that must end without an error, on a host of the test's own.
    pub fn pass_on(&self, host: &ScriptHost, source: &str) {
        let errors = self.run_on(host, source, 20_000);
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }

    /// A script that must end without an error.
    pub fn pass(&self, source: &str) {
        let errors = self.run(source, 20_000);
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
}

impl Drop for TestGpu {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let mut gpu = self.gpu.borrow_mut();
        gpu.wait_idle().expect("the device comes to rest");
        let messages = gpu.validation_messages();
        assert!(messages.is_empty(), "{}", messages.join("\n"));
    }
}

/// A declared program: `(name, access)` of u32 storage buffers, names of u32 parameters.
pub fn declared(key: &str, source: &str, bindings: &[(&str, DeclaredAccess)], params: &[&str]) -> ProgramSource {
    let interface = Interface::Declared {
        bindings: bindings.iter().map(|(name, access)| BindingDecl::buffer(*name, *access, "u32")).collect(),
        params: params
            .iter()
            .map(|name| ParamDecl { name: (*name).into(), ty: ParamType::U32, default: [0.0; 16] })
            .collect(),
    };
    ProgramSource::new(key, source, interface)
}

pub fn reflected(key: &str, source: &str) -> ProgramSource {
    ProgramSource::new(key, source, Interface::REFLECTED)
}

/// Compiles and waits.
pub fn program(gpu: &mut Gpu, source: ProgramSource) -> ProgramId {
    let id = gpu.compile(source).expect("a well-formed interface");
    gpu.wait_program(id).expect("a program");
    id
}

pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect()
}

/// Reads a buffer in a frame of its own.
pub fn read_now(gpu: &mut Gpu, buffer: BufferId) -> Vec<u32> {
    let key = gpu.read_buffer(buffer).expect("a key");
    gpu.end_frame().expect("a frame");
    words(&gpu.wait_read(key).expect("bytes"))
}

pub fn access(read: bool, write: bool) -> Access {
    Access { read, write }
}

/// Access to a `RefMut`'s target by a shorter name in tests.
pub fn with<R>(gpu: &TestGpu, f: impl FnOnce(&mut Gpu) -> R) -> R {
    let mut gpu = gpu.get();
    f(gpu.deref_mut())
}

const _: fn(&TestGpu) = |g| _ = g.get().deref().frame();
