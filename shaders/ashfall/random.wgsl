// Random numbers for shaders: PCG-RXS-M-XS 32 bit, a hash of one word to another.
// Source: O'Neill 2014, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms".

// A word that looks nothing like the one it came from. Every word comes from exactly one other.
fn random_hash(value: u32) -> u32 {
    let state = value * 747796405u + 2891336453u;
    let word = ((state >> ((state >> 28u) + 4u)) ^ state) * 277803737u;
    return (word >> 22u) ^ word;
}

// The next word of a sequence; start it with any word, such as random_hash of an invocation's index.
fn random_next(state: ptr<function, u32>) -> u32 {
    *state = *state * 747796405u + 2891336453u;
    let word = ((*state >> ((*state >> 28u) + 4u)) ^ *state) * 277803737u;
    return (word >> 22u) ^ word;
}

// The next number of a sequence, from 0 up to but not including 1, in steps of 2^-24.
fn random_unit(state: ptr<function, u32>) -> f32 {
    return f32(random_next(state) >> 8u) * 0x1p-24;
}
