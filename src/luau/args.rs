//! Script values to plain ones, with refusals that say what was given and what is accepted.

use crate::error::Error;
use mlua::{BorrowedStr, Table, Value};
use std::fmt;

/// Why a call was refused: the text behind `compute.name: ` in the raised error.
#[derive(Debug)]
pub(crate) struct Refusal(String);

impl Refusal {
    /// Field path, value given, values accepted.
    pub fn new(field: impl fmt::Display, given: impl fmt::Display, accepted: impl fmt::Display) -> Self {
        Self(format!("{field}: got {given}; expected {accepted}"))
    }

    /// The same for a script value.
    pub fn value(field: impl fmt::Display, given: &Value, accepted: impl fmt::Display) -> Self {
        Self::new(field, describe(given), accepted)
    }

    /// Any other text.
    pub fn text(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl From<mlua::Error> for Refusal {
    fn from(error: mlua::Error) -> Self {
        Self(error.to_string())
    }
}

/// An error of the Rust API in the script's terms: its argument `field` is the script's `prefix` + field.
pub(crate) fn rename(error: Error, prefix: &str) -> Refusal {
    match error {
        Error::Argument { field, given, accepted } => Refusal::new(format!("{prefix}{field}"), given, accepted),
        other => other.into(),
    }
}

/// A value as a message shows it.
pub(crate) fn describe(value: &Value) -> String {
    match value {
        Value::Nil => "nil".to_owned(),
        Value::Boolean(b) => b.to_string(),
        Value::Integer(n) => n.to_string(),
        Value::Number(n) => number_text(*n),
        Value::String(s) => {
            let text = s.to_string_lossy();
            if text.chars().count() > 60 {
                format!("\"{}...\"", text.chars().take(57).collect::<String>())
            } else {
                format!("\"{text}\"")
            }
        }
        Value::Table(_) => "a table".to_owned(),
        Value::Function(_) => "a function".to_owned(),
        Value::Buffer(b) => format!("a buffer of {} bytes", b.len()),
        other => format!("a {}", other.type_name()),
    }
}

fn number_text(n: f64) -> String {
    if n.is_nan() {
        "nan".to_owned()
    } else if n.is_finite() && n.fract() == 0.0 && n.abs() < 1e15 {
        format!("{n:.0}")
    } else {
        format!("{n:?}")
    }
}

/// A number, or `None` for any other type.
pub(crate) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Number(n) => Some(*n),
        Value::Integer(n) => Some(*n as f64),
        _ => None,
    }
}

/// A whole number from `least` to `most`.
pub(crate) fn whole(value: &Value, field: impl fmt::Display, least: u64, most: u64) -> Result<u64, Refusal> {
    match number(value) {
        // Numbers are doubles: beyond 2^53 they are no longer exact, and far beyond any limit here.
        Some(n) if n.fract() == 0.0 && n >= least as f64 && n <= most as f64 => Ok(n as u64),
        _ => Err(Refusal::value(field, value, format_args!("a whole number from {least} to {most}"))),
    }
}

/// A whole number from 0, or `default` for nil.
pub(crate) fn whole_or(value: &Value, field: &str, default: u64) -> Result<u64, Refusal> {
    if value.is_nil() { Ok(default) } else { whole(value, field, 0, MAX_EXACT) }
}

/// Doubles are exact up to here.
pub(crate) const MAX_EXACT: u64 = 1 << 53;

/// A string.
pub(crate) fn string(value: &Value, field: impl fmt::Display, accepted: &str) -> Result<String, Refusal> {
    text(value, field, accepted).map(|s| s.to_owned())
}

/// A string as Luau holds it: nothing is copied.
pub(crate) fn text(value: &Value, field: impl fmt::Display, accepted: &str) -> Result<BorrowedStr, Refusal> {
    match value {
        Value::String(s) => s.to_str().map_err(|_| Refusal::new(field, "a string that is not UTF-8", accepted)),
        other => Err(Refusal::value(field, other, accepted)),
    }
}

/// A table.
pub(crate) fn table<'a>(value: &'a Value, field: impl fmt::Display, accepted: &str) -> Result<&'a Table, Refusal> {
    match value {
        Value::Table(t) => Ok(t),
        other => Err(Refusal::value(field, other, accepted)),
    }
}

/// A boolean, or `default` for nil.
pub(crate) fn boolean_or(value: &Value, field: impl fmt::Display, default: bool) -> Result<bool, Refusal> {
    match value {
        Value::Nil => Ok(default),
        Value::Boolean(b) => Ok(*b),
        other => Err(Refusal::value(field, other, "true or false")),
    }
}

/// A field by name.
pub(crate) fn field(table: &Table, name: &str) -> Result<Value, Refusal> {
    Ok(table.get(name)?)
}

/// A field by name, or by position in the short form `{ first, second }`.
pub(crate) fn field_or(table: &Table, name: &str, position: i64) -> Result<Value, Refusal> {
    let named: Value = table.get(name)?;
    if named.is_nil() { Ok(table.get(position)?) } else { Ok(named) }
}

/// Bytes of a write: floats, words or packed bytes.
pub(crate) enum Payload<'a> {
    /// An array of numbers.
    Numbers(&'a Table, usize),
    /// A Luau `buffer`.
    Buffer(&'a mlua::Buffer),
    /// A binary string.
    Text(mlua::BorrowedBytes),
}

/// What a 32-bit word of a number array becomes.
#[derive(Clone, Copy)]
pub(crate) enum Word {
    /// IEEE single.
    F32,
    /// Unsigned, or a negative one in two's complement.
    U32,
    /// One byte, 0 to 255; a number is one byte of the payload rather than four.
    U8,
}

impl<'a> Payload<'a> {
    /// From a script value; `numbers` says whether a table is taken.
    pub fn new(value: &'a Value, field: &str, numbers: bool) -> Result<Self, Refusal> {
        match value {
            Value::Table(t) if numbers => Ok(Self::Numbers(t, t.raw_len())),
            Value::Buffer(b) => Ok(Self::Buffer(b)),
            Value::String(s) => Ok(Self::Text(s.as_bytes())),
            other if numbers => Err(Refusal::value(field, other, "an array of numbers, a buffer or a binary string")),
            other => Err(Refusal::value(field, other, "a buffer or a binary string")),
        }
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Numbers(_, count) => *count as u64 * 4,
            Self::Buffer(b) => b.len() as u64,
            Self::Text(s) => s.len() as u64,
        }
    }

    /// Writes it out. `to` is [`Payload::bytes`] long.
    pub fn write(&self, to: &mut [u8], word: Word, field: &str) -> Result<(), Refusal> {
        match self {
            Self::Buffer(b) => {
                use std::io::Read;
                let failed = |e: std::io::Error| Refusal::text(format!("{field}: {e}"));
                (*b).clone().cursor().read_exact(to).map_err(failed)
            }
            Self::Text(s) => {
                to.copy_from_slice(s);
                Ok(())
            }
            Self::Numbers(table, count) => numbers(table, *count, to, word, field),
        }
    }
}

fn numbers(table: &Table, count: usize, to: &mut [u8], word: Word, field: &str) -> Result<(), Refusal> {
    let mut index = 0;
    let mut bad = None;
    let step = if matches!(word, Word::U8) { 1 } else { 4 };
    let mut slots = to.chunks_exact_mut(step);
    let walked = table.for_each_value::<Value>(|value| {
        let given = number(&value);
        let bytes = match word {
            Word::F32 => given.map(|n| (n as f32).to_le_bytes()),
            Word::U32 => given.and_then(to_u32).map(u32::to_le_bytes),
            Word::U8 => given.and_then(to_u32).filter(|n| *n < 256).map(u32::to_le_bytes),
        };
        let Some(bytes) = bytes else {
            bad = Some(value);
            return Err(mlua::Error::runtime("stop"));
        };
        if let Some(slot) = slots.next() {
            slot.copy_from_slice(&bytes[..step]);
        }
        index += 1;
        Ok(())
    });
    let accepted = match word {
        Word::F32 => "a number",
        Word::U32 => "a whole number from -2147483648 to 4294967295",
        Word::U8 => "a whole number from 0 to 255",
    };
    if let Some(value) = bad {
        return Err(Refusal::value(format_args!("{field}[{}]", index + 1), &value, accepted));
    }
    walked?;
    if index != count {
        return Err(Refusal::value(format_args!("{field}[{}]", index + 1), &Value::Nil, accepted));
    }
    Ok(())
}

fn to_u32(n: f64) -> Option<u32> {
    if n.fract() != 0.0 {
        None
    } else if (0.0..=f64::from(u32::MAX)).contains(&n) {
        Some(n as u32)
    } else if (f64::from(i32::MIN)..0.0).contains(&n) {
        Some(n as i32 as u32)
    } else {
        None
    }
}
