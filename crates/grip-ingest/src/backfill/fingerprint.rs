//! Fingerprint of a file, to recognise it after a restart.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
};

use sha2::{Digest as _, Sha256};

/// Bytes at both ends of the file that distinguish it from others.
const ENDS: u64 = 64 << 10;

/// Says the same for the same file, whatever it is called and wherever it lies: by its length
/// and its two ends.
pub(super) fn of(file: &mut File) -> io::Result<(String, u64)> {
    let bytes = file.metadata()?.len();
    let mut hash = Sha256::new_with_prefix(bytes.to_be_bytes());
    for start in [0, bytes.saturating_sub(ENDS)] {
        file.seek(SeekFrom::Start(start))?;
        let mut end = Vec::new();
        file.by_ref().take(ENDS).read_to_end(&mut end)?;
        hash.update(&end);
    }
    file.seek(SeekFrom::Start(0))?;
    let digits = hash
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    Ok((digits, bytes))
}
