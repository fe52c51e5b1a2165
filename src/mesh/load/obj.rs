//! OBJ. Read here rather than by a crate: `tobj` stands in the last texture coordinate and normal for those that a
//! corner leaves out, or shifts all that follow, and its callers cannot tell; `obj-rs` panics at statements it does not
//! know and refuses vertex colours.

use super::{room, shown};
use crate::mesh::{Mesh, smooth_normals};
use hashbrown::HashMap;

/// The position, texture coordinate and normal of a vertex, counted from 1 as the file does; 0 for none.
type Corner = [u32; 3];

/// What the numbers of a [`Corner`] count.
const KINDS: [&str; 3] = ["vertex", "texture coordinate", "normal"];

/// A file as far as it is read.
#[derive(Default)]
struct Obj {
    positions: Vec<[f32; 3]>,
    uvs: Vec<[f32; 2]>,
    normals: Vec<[f32; 3]>,
    /// One for each vertex of the mesh.
    corners: Vec<Corner>,
    triangles: Vec<[u32; 3]>,
    /// The vertices of the current object or group. They are not shared with the next, so that normals that are
    /// computed do not smooth over the border.
    known: HashMap<Corner, u32>,
    /// The highest number of each kind and the line it is on. A face may name what comes later in the file, so that
    /// these are held against the counts at the end.
    highest: [(u32, usize); 3],
    /// Most bytes of the mesh.
    limit: u64,
}

/// The mesh of an OBJ file. Polygons become fans around their first corner.
pub(super) fn parse(text: &[u8], limit: u64) -> Result<Mesh, String> {
    let mut obj = Obj { limit, ..Obj::default() };
    for (i, line) in text.split(|b| *b == b'\n').enumerate() {
        let mut words = line
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty())
            // Only what is read must be UTF-8: names and comments are often in some other encoding.
            .take_while(|word| !word.starts_with(b"#"));
        let Some(keyword) = words.next() else { continue };
        obj.statement(i + 1, keyword, words).map_err(|reason| format!("line {}: {reason}", i + 1))?;
    }
    obj.mesh()
}

impl Obj {
    fn statement<'a>(
        &mut self,
        line: usize,
        keyword: &[u8],
        mut words: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), String> {
        match keyword {
            b"v" => {
                let mut position = [0.0; 3];
                for axis in &mut position {
                    *axis = number("v", words.next())?;
                }
                // One more number is a weight, three are a colour.
                if let (Some(weight), None) = (words.next(), words.next()) {
                    let weight = number("v", Some(weight))?;
                    if weight == 0.0 {
                        return Err("v: got a weight of 0; expected another".to_owned());
                    }
                    position = position.map(|axis| axis / weight);
                }
                self.positions.push(position);
            }
            b"vt" => {
                let u = number("vt", words.next())?;
                let v = words.next().map_or(Ok(0.0), |word| number("vt", Some(word)))?;
                // OBJ has the origin of texture coordinates at the bottom, glTF and Vulkan at the top.
                self.uvs.push([u, 1.0 - v]);
            }
            b"vn" => {
                let mut normal = [0.0; 3];
                for axis in &mut normal {
                    *axis = number("vn", words.next())?;
                }
                self.normals.push(normal);
            }
            b"f" => self.face(line, words)?,
            b"o" | b"g" => self.known.clear(),
            // Points, lines, curves, materials.
            _ => {}
        }
        Ok(())
    }

    fn face<'a>(&mut self, line: usize, mut words: impl Iterator<Item = &'a [u8]>) -> Result<(), String> {
        let (Some(first), Some(second), Some(third)) = (words.next(), words.next(), words.next()) else {
            // A point or a line.
            return Ok(());
        };
        let first = self.vertex(line, first)?;
        let mut before = self.vertex(line, second)?;
        // One by one: a polygon may be as long as the file.
        for word in std::iter::once(third).chain(words) {
            let next = self.vertex(line, word)?;
            room(self.corners.len() as u64, self.triangles.len() as u64 + 1, self.limit)?;
            self.triangles.push([first, before, next]);
            before = next;
        }
        Ok(())
    }

    /// The vertex of a corner of a face.
    fn vertex(&mut self, line: usize, word: &[u8]) -> Result<u32, String> {
        let counts = [self.positions.len(), self.uvs.len(), self.normals.len()];
        let corner = corner(word, counts).ok_or_else(|| {
            let [v, vt, vn] = counts;
            format!(
                "f: got \"{}\"; expected v, v/vt, v//vn or v/vt/vn, each from 1, or from -1 back to the first of the \
                 {v} vertices, {vt} texture coordinates and {vn} normals so far",
                shown(&String::from_utf8_lossy(word), 40)
            )
        })?;
        if let Some(vertex) = self.known.get(&corner) {
            return Ok(*vertex);
        }
        room(self.corners.len() as u64 + 1, self.triangles.len() as u64, self.limit)?;
        for (highest, number) in self.highest.iter_mut().zip(corner) {
            *highest = (*highest).max((number, line));
        }
        let vertex = u32::try_from(self.corners.len()).map_err(|_| format!("more than {} vertices", u32::MAX))?;
        self.corners.push(corner);
        self.known.insert(corner, vertex);
        Ok(vertex)
    }

    fn mesh(self) -> Result<Mesh, String> {
        let counts = [self.positions.len(), self.uvs.len(), self.normals.len()];
        for ((kind, count), (number, line)) in KINDS.iter().zip(counts).zip(self.highest) {
            if number as usize > count {
                return Err(format!("line {line}: f: got {kind} {number}; expected at most {count}, as the file has"));
            }
        }
        drop(self.known);
        let corners = &self.corners;
        let positions: Vec<_> = corners.iter().map(|c| given(&self.positions, c[0]).unwrap_or_default()).collect();
        let uvs = corners.iter().map(|c| given(&self.uvs, c[1]).unwrap_or_default()).collect();
        let computed =
            if corners.iter().any(|c| c[2] == 0) { smooth_normals(&positions, &self.triangles) } else { Vec::new() };
        let normal = |(i, c): (usize, &Corner)| given(&self.normals, c[2]).or_else(|| computed.get(i).copied());
        let normals = corners.iter().enumerate().map(|at| normal(at).unwrap_or_default()).collect();
        Mesh::new(positions, Some(normals), Some(uvs), Some(self.triangles)).map_err(|e| e.to_string())
    }
}

/// What a number of a [`Corner`] stands for.
fn given<T: Copy>(list: &[T], number: u32) -> Option<T> {
    list.get((number as usize).checked_sub(1)?).copied()
}

/// `v`, `v/vt`, `v//vn` or `v/vt/vn`; negative numbers count back from the last of those before.
fn corner(word: &[u8], counts: [usize; 3]) -> Option<Corner> {
    let mut corner = [0; 3];
    let mut parts = std::str::from_utf8(word).ok()?.split('/');
    for (slot, count) in corner.iter_mut().zip(counts) {
        match parts.next() {
            None => break,
            Some("") => {}
            Some(part) => {
                let number: i64 = part.parse().ok()?;
                let number =
                    if number < 0 { number.checked_add_unsigned(count as u64)?.checked_add(1)? } else { number };
                *slot = u32::try_from(number).ok().filter(|n| *n > 0)?;
            }
        }
    }
    (corner[0] > 0 && parts.next().is_none()).then_some(corner)
}

fn number(keyword: &str, word: Option<&[u8]>) -> Result<f32, String> {
    let text = String::from_utf8_lossy(word.unwrap_or_default());
    text.parse().map_err(|_| format!("{keyword}: got \"{}\"; expected a number", shown(&text, 40)))
}
