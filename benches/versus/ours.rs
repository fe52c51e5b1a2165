//! ashfall, from Rust.

use crate::work::{PARAMS, Work};
use crate::{Contestant, Took};
use ashfall::shader::{BindingDecl, DeclaredAccess, Interface, ParamDecl, ParamType, ProgramSource};
use ashfall::{BufferDesc, BufferId, DeviceOptions, Gpu, ProgramId};
use std::time::Instant;

pub struct Ours {
    pub gpu: Gpu,
    buffers: Vec<BufferId>,
    program: Option<ProgramId>,
    work: Option<Work>,
}

/// The kernel of a work as ashfall declares it.
pub fn kernel(bound: usize) -> ProgramSource {
    let params = ["a", "b", "c", "d"].into_iter().zip(PARAMS);
    let param = |(name, value): (&str, u32)| {
        let mut default = [0.0; 16];
        default[0] = f64::from(value);
        ParamDecl { name: name.into(), ty: ParamType::U32, default }
    };
    let mut bindings: Vec<_> =
        (0..bound - 1).map(|s| BindingDecl::buffer(format!("src{s}"), DeclaredAccess::Read, "u32")).collect();
    bindings.push(BindingDecl::buffer("dst", DeclaredAccess::ReadWrite, "u32"));
    let interface = Interface::Declared { bindings, params: params.map(param).collect() };
    ProgramSource::new("versus", Work::body(bound), interface)
}

impl Ours {
    pub fn new(options: &DeviceOptions) -> Self {
        Self { gpu: Gpu::open(options).unwrap(), buffers: Vec::new(), program: None, work: None }
    }
}

impl Contestant for Ours {
    fn name(&self) -> &'static str {
        "ashfall"
    }

    fn load(&mut self, work: &Work) {
        let gpu = &mut self.gpu;
        let program = gpu.compile(kernel(work.bound)).unwrap();
        gpu.wait_program(program).unwrap();
        let make = |b: usize| {
            let id = gpu.create_buffer(&format!("b{b}"), BufferDesc::new(crate::work::BYTES)).unwrap();
            gpu.write_buffer(id, 0, bytemuck::cast_slice(&Work::initial(b))).unwrap();
            id
        };
        self.buffers = (0..work.buffers).map(make).collect();
        self.gpu.end_frame().unwrap();
        self.gpu.wait_idle().unwrap();
        self.program = Some(program);
        self.work = Some(work.clone());
    }

    fn frame(&mut self) -> Took {
        let (Some(work), Some(program)) = (&self.work, self.program) else { return Took::default() };
        let start = Instant::now();
        let mut binds = [self.buffers[0]; 8];
        for list in work.list.chunks_exact(work.bound) {
            binds.iter_mut().zip(list).for_each(|(bind, b)| *bind = self.buffers[*b as usize]);
            self.gpu.dispatch(program, &binds[..work.bound], [1, 1, 1]).unwrap();
        }
        self.gpu.end_frame().unwrap();
        let recorded = start.elapsed();
        self.gpu.wait_idle().unwrap();
        Took { recorded, idle: start.elapsed() }
    }

    fn output(&mut self) -> Vec<u32> {
        let keys: Vec<_> = self.buffers.iter().map(|b| self.gpu.read_buffer(*b).unwrap()).collect();
        self.gpu.end_frame().unwrap();
        let bytes = keys.into_iter().flat_map(|key| self.gpu.wait_read(key).unwrap());
        let bytes: Vec<u8> = bytes.collect();
        bytemuck::pod_collect_to_vec(&bytes)
    }

    fn unload(&mut self) {
        for buffer in self.buffers.drain(..) {
            self.gpu.destroy_buffer(buffer).unwrap();
        }
        self.gpu.end_frame().unwrap();
        self.gpu.wait_idle().unwrap();
    }
}
