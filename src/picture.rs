//! Textures and buffers as PNG files, for `ashfall run --png`.

use ashfall::Gpu;
use ashfall::texture::{Format, TextureRole};
use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

/// What is to be written and where to.
#[derive(Debug, PartialEq, Eq)]
pub struct Wish {
    key: String,
    /// Shape and texels of a buffer; a texture knows its own.
    shape: Option<(u32, u32, Format)>,
    file: PathBuf,
}

const FORM: &str = "KEY=FILE for a 2D texture or KEY:WIDTHxHEIGHT:FORMAT=FILE for a buffer";

impl Wish {
    /// From the argument of `--png`.
    ///
    /// # Errors
    /// A message that says what the argument must look like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = || format!("ashfall: --png: got \"{text}\"; expected {FORM}");
        // The first = that is followed by something: keys rarely have one, files hardly ever.
        let (left, file) = text.split_once('=').filter(|(k, f)| !k.is_empty() && !f.is_empty()).ok_or_else(refuse)?;
        let parts: Vec<&str> = left.rsplitn(3, ':').collect();
        let shaped = match parts[..] {
            [format, size, key] => size
                .split_once('x')
                .and_then(|(w, h)| Some((key, (w.parse().ok()?, h.parse().ok()?, Format::from_name(format))))),
            _ => None,
        };
        let (key, shape) = match shaped {
            Some((key, (w @ 1.., h @ 1.., Some(format)))) => (key, Some((w, h, format))),
            Some((_, (_, _, None))) => {
                return Err(format!("{}, FORMAT one of {}", refuse(), Format::NAMES.join(", ")));
            }
            Some(_) => return Err(refuse()),
            // A key may have colons of its own.
            None => (left, None),
        };
        Ok(Self { key: key.to_owned(), shape, file: file.into() })
    }

    /// Reads the texels back and writes the file.
    ///
    /// # Errors
    /// A message for a key that names nothing, a buffer that is too small, a file that cannot be written.
    pub fn write(&self, gpu: &mut Gpu) -> Result<(), String> {
        self.try_write(gpu).map_err(|reason| format!("ashfall: --png {}: {reason}", self.key))
    }

    fn try_write(&self, gpu: &mut Gpu) -> Result<(), String> {
        let say = |e: ashfall::Error| e.to_string();
        let (width, height, format, read) = match self.shape {
            Some((width, height, format)) => {
                let id = gpu.find_buffer(&self.key).ok_or("no buffer has this key")?;
                (width, height, format, gpu.read_buffer(id).map_err(say)?)
            }
            None => {
                let roles = [TextureRole::Target, TextureRole::Cached];
                let id = roles.iter().find_map(|role| gpu.find_texture(*role, &self.key));
                let id = id.ok_or_else(|| match gpu.history(&self.key) {
                    // Which of the two was written last depends on how many frames have passed since.
                    Some(_) => "a history flips every frame: copy it to a storage texture".to_owned(),
                    None => format!("no 2D texture has this key; {FORM}"),
                })?;
                let desc = gpu.texture_desc(id).ok_or("it is gone")?;
                (desc.width, desc.height, desc.format, gpu.read_texture(id).map_err(say)?)
            }
        };
        gpu.end_frame().map_err(say)?;
        let bytes = gpu.wait_read(read).map_err(say)?;
        let texels = (u64::from(width) * u64::from(height)).saturating_mul(format.bytes());
        let used = usize::try_from(texels).ok().and_then(|n| bytes.get(..n));
        let used = used.ok_or_else(|| format!("it holds {} bytes, {texels} are needed", bytes.len()))?;
        let file = File::create(&self.file).map_err(|e| format!("{}: {e}", self.file.display()))?;
        let mut encoder = png::Encoder::new(BufWriter::new(file), width, height);
        encoder.set_color(if format.channels() == 1 { png::ColorType::Grayscale } else { png::ColorType::Rgba });
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(|e| e.to_string())?;
        writer.write_image_data(&to_bytes(format, used)).map_err(|e| e.to_string())
    }
}

/// Channels as bytes: 0 to 1 becomes 0 to 255, what lies outside is clamped. Values are taken as they are, without a
/// transfer function.
fn to_bytes(format: Format, texels: &[u8]) -> Vec<u8> {
    let step = format.channel_bytes() as usize;
    texels
        .chunks_exact(step)
        .map(|channel| {
            let mut byte = [0];
            Format::R8.pack(format.unpack(channel), &mut byte);
            byte[0]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn arguments() {
        let wish = |key: &str, shape, file: &str| Ok(Wish { key: key.into(), shape, file: file.into() });
        assert_eq!(Wish::parse("a=b.png"), wish("a", None, "b.png"));
        assert_eq!(Wish::parse("a:b=c=d.png"), wish("a:b", None, "c=d.png"));
        assert_eq!(Wish::parse("x:4x3:rgba8=o.png"), wish("x", Some((4, 3, Format::Rgba8)), "o.png"));
        assert_eq!(Wish::parse("a/b:c:4x3:r32f=o.png"), wish("a/b:c", Some((4, 3, Format::R32f)), "o.png"));
        for bad in ["a", "=b", "a=", "x:0x3:rgba8=o"] {
            assert!(Wish::parse(bad).unwrap_err().contains("expected KEY=FILE"), "{bad}");
        }
        assert!(Wish::parse("x:4x3:rgb9=o").unwrap_err().contains("FORMAT one of r8, "));
    }

    #[test]
    fn channels_are_clamped_and_rounded() {
        let floats: Vec<u8> = [-1.0f32, 0.5, 1.0, 7.0].iter().flat_map(|f| f.to_le_bytes()).collect();
        assert_eq!(to_bytes(Format::Rgba32f, &floats), [0, 128, 255, 255]);
        assert_eq!(to_bytes(Format::R8, &[1, 2]), [1, 2]);
    }
}
