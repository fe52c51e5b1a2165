//! Takes memory layouts off the types of workgroup, private and function variables.
//!
//! SPIR-V forbids `ArrayStride`, `Offset` and their like there; naga 30 decorates every array and struct alike
//! (gfx-rs/wgpu#7696). Most drivers let it pass, some miscompile it, validation reports it.
//!
//! A type that only such variables reach loses its decorations. One that buffers reach too gets a twin without them:
//! the variables' pointers are turned to the twin, and whole values are converted with `OpCopyLogical` where they are
//! loaded from or stored to such a variable.

use std::collections::{HashMap, HashSet};

const OP_NAME: u32 = 5;
const OP_MEMBER_NAME: u32 = 6;
const OP_TYPE_ARRAY: u32 = 28;
const OP_TYPE_RUNTIME_ARRAY: u32 = 29;
const OP_TYPE_STRUCT: u32 = 30;
const OP_TYPE_POINTER: u32 = 32;
const OP_CONSTANT_COMPOSITE: u32 = 44;
const OP_CONSTANT_NULL: u32 = 46;
const OP_VARIABLE: u32 = 59;
const OP_LOAD: u32 = 61;
const OP_STORE: u32 = 62;
const OP_ACCESS_CHAIN: u32 = 65;
const OP_IN_BOUNDS_ACCESS_CHAIN: u32 = 66;
const OP_DECORATE: u32 = 71;
const OP_MEMBER_DECORATE: u32 = 72;
const OP_FUNCTION_PARAMETER: u32 = 55;
const OP_COPY_LOGICAL: u32 = 400;

/// Workgroup, Private, Function: the classes whose types must have none.
const CLASSES_WITHOUT_LAYOUT: [u32; 3] = [4, 6, 7];
/// Uniform, PushConstant, StorageBuffer: the classes whose types must have a layout.
const CLASSES_WITH_LAYOUT: [u32; 3] = [2, 9, 12];
/// RowMajor, ColMajor, ArrayStride, MatrixStride, Offset.
const LAYOUT_DECORATIONS: [u32; 5] = [4, 5, 6, 7, 35];
/// Words of a module's header, and the one in it that bounds the ids.
const HEADER: usize = 5;
const BOUND: usize = 3;

/// Rewrites a module. Words that are no module are given back as they are.
pub(super) fn strip(words: Vec<u32>) -> Vec<u32> {
    if words.len() < HEADER {
        return words;
    }
    let types = Types::read(&words);
    let free = types.reached(&CLASSES_WITHOUT_LAYOUT);
    let laid_out = types.reached(&CLASSES_WITH_LAYOUT);
    if free.is_disjoint(&types.decorated) {
        return words;
    }
    let twins = types.twins(&free, &laid_out, words[BOUND]);
    let next = words[BOUND] + twins.len() as u32;
    let rewrite = Rewrite {
        types: &types,
        free: &free,
        laid_out: &laid_out,
        twins,
        next,
        values: HashMap::new(),
        constants: HashMap::new(),
    };
    rewrite.run(&words)
}

/// The instructions behind the header: opcode and all words.
fn instructions(words: &[u32]) -> impl Iterator<Item = (u32, &[u32])> {
    let mut rest = words.get(HEADER..).unwrap_or_default();
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let (head, tail) = rest.split_at_checked((first >> 16).max(1) as usize)?;
        rest = tail;
        Some((first & 0xFFFF, head))
    })
}

/// What the module says of its types.
#[derive(Default)]
struct Types {
    /// Members or element of each composite, in order of declaration.
    composites: Vec<(u32, Vec<u32>)>,
    /// Pointers: id, storage class, what they point to.
    pointers: Vec<(u32, u32, u32)>,
    /// Types with a layout decoration.
    decorated: HashSet<u32>,
}

impl Types {
    fn read(words: &[u32]) -> Self {
        let mut types = Self::default();
        for (op, w) in instructions(words) {
            match (op, w) {
                // Of an array only the element is a type; its length is a constant.
                (OP_TYPE_ARRAY | OP_TYPE_RUNTIME_ARRAY, [_, id, element, ..]) => {
                    types.composites.push((*id, vec![*element]))
                }
                (OP_TYPE_STRUCT, [_, id, members @ ..]) => types.composites.push((*id, members.to_vec())),
                (OP_TYPE_POINTER, [_, id, class, pointee]) => types.pointers.push((*id, *class, *pointee)),
                (OP_DECORATE, [_, id, what, ..]) | (OP_MEMBER_DECORATE, [_, id, _, what, ..])
                    if LAYOUT_DECORATIONS.contains(what) =>
                {
                    types.decorated.insert(*id);
                }
                _ => {}
            }
        }
        types
    }

    /// Types behind the pointers of some storage classes.
    fn reached(&self, classes: &[u32]) -> HashSet<u32> {
        let mut found: HashSet<u32> = self.pointers.iter().filter(|p| classes.contains(&p.1)).map(|p| p.2).collect();
        // Composites are declared after their parts, so one pass backwards reaches everything.
        for (id, parts) in self.composites.iter().rev() {
            if found.contains(id) {
                found.extend(parts);
            }
        }
        found
    }

    /// A new id for each shared type that has a layout, or holds one that has.
    fn twins(&self, free: &HashSet<u32>, laid_out: &HashSet<u32>, first: u32) -> HashMap<u32, u32> {
        let mut twins = HashMap::new();
        let mut next = first;
        for (id, parts) in &self.composites {
            let needs = self.decorated.contains(id) || parts.iter().any(|p| twins.contains_key(p));
            if needs && free.contains(id) && laid_out.contains(id) {
                twins.insert(*id, next);
                next += 1;
            }
        }
        twins
    }
}

struct Rewrite<'a> {
    types: &'a Types,
    /// Types that variables without layout reach.
    free: &'a HashSet<u32>,
    /// Types that buffers reach.
    laid_out: &'a HashSet<u32>,
    twins: HashMap<u32, u32>,
    next: u32,
    /// Pointer values to such variables, and the shared type that each points to.
    values: HashMap<u32, u32>,
    /// Constants of a shared type, and the same of its twin.
    constants: HashMap<u32, u32>,
}

impl Rewrite<'_> {
    fn run(mut self, words: &[u32]) -> Vec<u32> {
        let mut out = words[..HEADER].to_vec();
        for (op, w) in instructions(words) {
            self.instruction(op, w, &mut out);
        }
        out[BOUND] = self.next;
        out
    }

    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn only_free(&self, id: u32) -> bool {
        self.free.contains(&id) && !self.laid_out.contains(&id)
    }

    /// The shared type that a pointer type of a class without layout points to.
    fn shared_pointee(&self, pointer: u32) -> Option<u32> {
        let found = self.types.pointers.iter().find(|p| p.0 == pointer && CLASSES_WITHOUT_LAYOUT.contains(&p.1))?;
        self.twins.contains_key(&found.2).then_some(found.2)
    }

    fn instruction(&mut self, op: u32, w: &[u32], out: &mut Vec<u32>) {
        match (op, w) {
            (OP_DECORATE, [_, id, what, ..]) | (OP_MEMBER_DECORATE, [_, id, _, what, ..])
                if LAYOUT_DECORATIONS.contains(what) && self.only_free(*id) => {}
            (OP_NAME | OP_MEMBER_NAME, [_, id, ..]) => {
                out.extend(w);
                // Mesa tells struct types apart by name, and refuses to copy between two that differ in it.
                if let Some(twin) = self.twins.get(id) {
                    let mut copy = w.to_vec();
                    copy[1] = *twin;
                    out.extend(copy);
                }
            }
            (OP_TYPE_ARRAY | OP_TYPE_STRUCT | OP_TYPE_RUNTIME_ARRAY, [_, id, ..]) => self.composite(*id, op, w, out),
            (OP_TYPE_POINTER, [first, id, class, pointee]) if CLASSES_WITHOUT_LAYOUT.contains(class) => {
                out.extend([*first, *id, *class, *self.twins.get(pointee).unwrap_or(pointee)]);
            }
            (OP_CONSTANT_COMPOSITE | OP_CONSTANT_NULL, [first, ty, id, parts @ ..]) => {
                self.constant([*first, *ty, *id], parts, out)
            }
            (OP_VARIABLE | OP_ACCESS_CHAIN | OP_IN_BOUNDS_ACCESS_CHAIN | OP_FUNCTION_PARAMETER, [_, ty, id, ..]) => {
                let mut w = w.to_vec();
                if let Some(pointee) = self.shared_pointee(*ty) {
                    self.values.insert(*id, pointee);
                    // A variable's initialiser is of the variable's type.
                    if let (OP_VARIABLE, Some(initial)) = (op, w.get_mut(4)) {
                        *initial = *self.constants.get(initial).unwrap_or(initial);
                    }
                }
                out.extend(w);
            }
            (OP_LOAD, [first, ty, id, from, access @ ..]) if self.values.contains_key(from) => {
                let loaded = self.fresh();
                out.extend([*first, self.twins[ty], loaded, *from]);
                out.extend(access);
                out.extend([4 << 16 | OP_COPY_LOGICAL, *ty, *id, loaded]);
            }
            (OP_STORE, [first, to, value, access @ ..]) if self.values.contains_key(to) => {
                let stored = self.fresh();
                out.extend([4 << 16 | OP_COPY_LOGICAL, self.twins[&self.values[to]], stored, *value]);
                out.extend([*first, *to, stored]);
                out.extend(access);
            }
            _ => out.extend(w),
        }
    }

    /// A composite type, and its twin right behind it.
    fn composite(&mut self, id: u32, op: u32, w: &[u32], out: &mut Vec<u32>) {
        let parts = if op == OP_TYPE_STRUCT { 2..w.len() } else { 2..3 };
        let mut turned = w.to_vec();
        for part in &mut turned[parts] {
            *part = *self.twins.get(part).unwrap_or(part);
        }
        if self.only_free(id) {
            // A type that only such variables use may hold one that is shared.
            out.extend(turned);
            return;
        }
        out.extend(w);
        if let Some(twin) = self.twins.get(&id) {
            turned[1] = *twin;
            out.extend(turned);
        }
    }

    /// A constant, and the same of its type's twin right behind it.
    fn constant(&mut self, head: [u32; 3], parts: &[u32], out: &mut Vec<u32>) {
        let [first, ty, id] = head;
        let turned: Vec<u32> = parts.iter().map(|p| *self.constants.get(p).unwrap_or(p)).collect();
        out.extend(head);
        if self.only_free(ty) {
            out.extend(turned);
            return;
        }
        out.extend(parts);
        if let Some(twin) = self.twins.get(&ty).copied() {
            let copy = self.fresh();
            self.constants.insert(id, copy);
            out.extend([first, twin, copy]);
            out.extend(turned);
        }
    }
}
