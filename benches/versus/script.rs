//! ashfall, from a Luau script that names what it binds.

use crate::ours::kernel;
use crate::work::{BYTES, Work};
use crate::{Contestant, Took};
use ashfall::{BufferDesc, DeviceOptions, Gpu, ScriptHost, ScriptOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

pub struct Script {
    gpu: Rc<RefCell<Gpu>>,
    host: Option<ScriptHost>,
    buffers: usize,
}

impl Script {
    pub fn new(options: &DeviceOptions) -> Self {
        Self { gpu: Rc::new(RefCell::new(Gpu::open(options).unwrap())), host: None, buffers: 0 }
    }
}

impl Contestant for Script {
    fn name(&self) -> &'static str {
        "ashfall, Luau"
    }

    fn load(&mut self, work: &Work) {
        {
            let mut gpu = self.gpu.borrow_mut();
            let program = gpu.compile(kernel(work.bound)).unwrap();
            gpu.wait_program(program).unwrap();
            for b in 0..work.buffers {
                let id = gpu.create_buffer(&format!("b{b}"), BufferDesc::new(BYTES)).unwrap();
                gpu.write_buffer(id, 0, bytemuck::cast_slice(&Work::initial(b))).unwrap();
            }
            gpu.end_frame().unwrap();
            gpu.wait_idle().unwrap();
        }
        self.buffers = work.buffers;
        let host = ScriptHost::new(Rc::clone(&self.gpu), ScriptOptions::default()).unwrap();
        let list: Vec<String> = work.list.iter().map(u32::to_string).collect();
        // The list is a buffer of the script, and the names are made once.
        let bound = (0..work.bound).map(|b| format!("name[readu32(list, at + {})]", 4 * b));
        let source = format!(
            "local words = string.split(({list:?}), ' ')
             local list = buffer.create(4 * #words)
             for i, word in words do buffer.writeu32(list, 4 * (i - 1), tonumber(word)) end
             local readu32 = buffer.readu32
             local name = {{}}
             for b = 0, {last} do name[b] = 'b' .. b end
             while true do
                 for at = 0, {end}, {step} do
                     compute.dispatch('versus', {{ buffers = {{ {bound} }}, workgroups = {{ 1, 1, 1 }} }})
                 end
                 task.wait()
             end",
            list = list.join(" "),
            last = work.buffers - 1,
            end = 4 * (work.list.len() - 1),
            step = 4 * work.bound,
            bound = bound.collect::<Vec<_>>().join(", "),
        );
        host.spawn("versus.luau", source.as_bytes()).unwrap();
        self.host = Some(host);
    }

    fn frame(&mut self) -> Took {
        let Some(host) = &self.host else { return Took::default() };
        let start = Instant::now();
        let errors = host.step();
        assert!(errors.is_empty(), "{errors:?}");
        host.end_frame().unwrap();
        let recorded = start.elapsed();
        self.gpu.borrow_mut().wait_idle().unwrap();
        Took { recorded, idle: start.elapsed() }
    }

    fn output(&mut self) -> Vec<u32> {
        let mut gpu = self.gpu.borrow_mut();
        let keys: Vec<_> = (0..self.buffers)
            .map(|b| {
                let id = gpu.find_buffer(&format!("b{b}")).unwrap();
                gpu.read_buffer(id).unwrap()
            })
            .collect();
        gpu.end_frame().unwrap();
        let bytes: Vec<u8> = keys.into_iter().flat_map(|key| gpu.wait_read(key).unwrap()).collect();
        bytemuck::pod_collect_to_vec(&bytes)
    }

    fn unload(&mut self) {
        self.host = None;
        let mut gpu = self.gpu.borrow_mut();
        for b in 0..self.buffers {
            let id = gpu.find_buffer(&format!("b{b}")).unwrap();
            gpu.destroy_buffer(id).unwrap();
        }
        gpu.end_frame().unwrap();
        gpu.wait_idle().unwrap();
    }
}
