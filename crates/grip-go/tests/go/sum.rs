//! Go's sum of a module (`h1:`), computed without go.

use sha2::{Digest, Sha256};

/// The sum of files by their names in the zip.
pub fn h1<'a>(files: impl IntoIterator<Item = (String, &'a [u8])>) -> String {
    let mut lines: Vec<_> = files
        .into_iter()
        .map(|(name, content)| (name, hex(&Sha256::digest(content))))
        .collect();
    lines.sort();
    let mut all = Sha256::new();
    for (name, digest) in lines {
        all.update(format!("{digest}  {name}\n"));
    }
    format!("h1:{}", base64(&all.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut number = 0_u32;
        for at in 0..3 {
            number = number << 8 | u32::from(three.get(at).copied().unwrap_or(0));
        }
        for at in 0..4 {
            let digit = (number >> (18 - 6 * at)) as usize % 64;
            text.push(if at <= three.len() {
                DIGITS[digit].into()
            } else {
                '='
            });
        }
    }
    text
}

#[test]
fn the_sum_is_that_of_a_module_everybody_knows() {
    // The line of rsc.io/quote v1.5.2/go.mod in every go.sum that has it.
    let go_mod = b"module \"rsc.io/quote\"\n\nrequire \"rsc.io/sampler\" v1.3.0\n";
    assert_eq!(
        h1([("go.mod".to_owned(), &go_mod[..])]),
        "h1:LzX7hefJvL54yjefDEDHNONDjII0t9xZLPXsUe+TKr0=",
    );
}
