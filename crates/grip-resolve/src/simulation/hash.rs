//! Numbers that follow from a seed and from what they are for, in no order of drawing.

/// Mixes the bits of a number (splitmix64).
fn mixed(mut n: u64) -> u64 {
    n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// A number for `parts` under `seed`.
pub(super) fn draw<const N: usize>(seed: u64, parts: [u64; N]) -> u64 {
    parts.into_iter().fold(mixed(seed), |hash, part| {
        mixed(hash ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93))
    })
}

/// A number from 0 to 1, without 1.
pub(super) fn fraction(n: u64) -> f64 {
    (n >> 11) as f64 / (1_u64 << 53) as f64
}
