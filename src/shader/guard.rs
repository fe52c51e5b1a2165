//! Keeps a source from taking the process along with the compiler.
//!
//! naga limits how deep brackets and braces nest, but not how long a chain of operators, of `else if` or of
//! declarations gets, and walks each by recursion. A full stack aborts the process and cannot be caught, so such
//! chains are measured first, and naga runs on a stack that holds what the measure lets pass.

/// Longest chain of operators in one expression.
const MAX_OPERATORS: usize = 2000;
/// Longest chain of `else`.
const MAX_ELSES: usize = 500;
/// Most declarations of one source: one may lean on the next, and so on to the last.
const MAX_DECLARATIONS: usize = 10_000;
/// Bytes of stack for naga. An unoptimised build of it takes up to 8 KiB for an operator and 66 KiB for an `else`, so
/// the longest chains together fit twice. Only what is touched is ever backed by memory.
const STACK: usize = 128 << 20;

/// Runs something that calls naga. `None` when it panicked, or when there is no thread to be had.
pub(super) fn run<T: Send>(f: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("ashfall naga".to_owned()).stack_size(STACK);
        // naga is a large program fed by strangers: a panic in it ends at the join and costs this source alone.
        thread.spawn_scoped(scope, f).ok()?.join().ok()
    })
}

/// One open bracket, or the statement around them.
#[derive(Default)]
struct Level {
    /// Operators so far.
    links: usize,
    /// Depth of the deepest bracket among them.
    inside: usize,
    /// Depth of the deepest argument before the last comma.
    before: usize,
}

impl Level {
    fn depth(&self) -> usize {
        self.before.max(self.links + self.inside)
    }
}

/// Where a source first exceeds what naga can walk, and how.
pub(super) fn too_deep(source: &str) -> Option<(usize, String)> {
    let bytes = source.as_bytes();
    let (mut at, mut declarations) = (0, 0);
    let mut levels = vec![Level::default()];
    // Length of the chain of `else` that is under way, per open brace.
    let mut elses = vec![0_usize];
    let (mut open_links, mut open_elses) = (0, 0);
    let mut after_brace = false;
    while let Some(byte) = bytes.get(at) {
        let start = at;
        at += 1;
        let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80;
        match byte {
            b'/' if bytes.get(at) == Some(&b'/') => {
                at = source[at..].find(is_line_end).map_or(bytes.len(), |n| at + n);
                continue;
            }
            b'/' if bytes.get(at) == Some(&b'*') => {
                at = block_comment(bytes, start);
                continue;
            }
            b if b.is_ascii_whitespace() => continue,
            b if word(b) => {
                at += bytes[at..].iter().take_while(|b| word(b)).count();
                if let Some(chain) = elses.last_mut().filter(|_| after_brace) {
                    open_elses -= *chain;
                    *chain = if &source[start..at] == "else" { *chain + 1 } else { 0 };
                    open_elses += *chain;
                }
            }
            b'(' | b'[' => levels.push(Level::default()),
            b')' | b']' => {
                let closed = levels.pop().unwrap_or_default();
                open_links -= closed.links;
                let depth = closed.depth() + 1;
                if levels.is_empty() {
                    levels.push(Level::default());
                }
                if let Some(outer) = levels.last_mut() {
                    outer.links += 1;
                    open_links += 1;
                    outer.inside = outer.inside.max(depth);
                }
            }
            b',' => {
                if let Some(level) = levels.last_mut() {
                    open_links -= level.links;
                    *level = Level { before: level.depth(), ..Level::default() };
                }
            }
            b';' | b'{' | b'}' => {
                levels.clear();
                levels.push(Level::default());
                open_links = 0;
                match byte {
                    b'{' => elses.push(0),
                    b'}' if elses.len() > 1 => open_elses -= elses.pop().unwrap_or(0),
                    _ => {}
                }
                declarations += usize::from(elses.len() == 1);
            }
            _ => {
                if let Some(level) = levels.last_mut() {
                    level.links += 1;
                    open_links += 1;
                }
            }
        }
        after_brace = *byte == b'}';
        if levels.last().map_or(0, Level::depth).max(open_links) > MAX_OPERATORS {
            return Some((start, format!("more than {MAX_OPERATORS} operators in one expression: split it up")));
        }
        if open_elses > MAX_ELSES {
            return Some((
                start,
                format!("more than {MAX_ELSES} else branches in a row: use a switch, or split them up"),
            ));
        }
        if declarations > MAX_DECLARATIONS {
            return Some((start, format!("more than {MAX_DECLARATIONS} declarations: split the source up")));
        }
    }
    None
}

/// What ends a line comment in WGSL.
fn is_line_end(c: char) -> bool {
    matches!(c, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// End of a block comment; they nest.
fn block_comment(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut open) = (start, 0);
    while let Some(pair) = bytes.get(at..at + 2) {
        match pair {
            b"/*" => open += 1,
            b"*/" => open -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if open == 0 {
            return at;
        }
    }
    bytes.len()
}
