//! Go's sums of modules (`h1:`), as go.sum and the checksum database have them.

use std::io::{self, Read};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest, Sha256};

use crate::{
    display_text::shown,
    zip::{File, Selection, WriteError},
};

const BUFFER_BYTES: usize = 32 << 10;

/// The sum of files by their names.
pub fn of_files<'a>(files: impl IntoIterator<Item = (String, &'a [u8])>) -> String {
    let files = files.into_iter();
    let lines = files.map(|(name, content)| (name, Sha256::digest(content).into()));
    of_digests(lines.collect())
}

/// The sum of a go.mod.
pub fn of_go_mod(text: &[u8]) -> String {
    of_files([("go.mod".to_owned(), text)])
}

impl Selection {
    /// The sum of the zip, without making it. `open` is asked for the bytes of one file after
    /// another, in the order of [`files`](Self::files).
    pub fn sum<R: Read>(
        &self,
        mut open: impl FnMut(&File) -> io::Result<R>,
    ) -> Result<String, WriteError> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut digests = Vec::with_capacity(self.files().len());
        for file in self.files() {
            let digest = open(file).and_then(|content| digest(content, &mut buffer));
            let (digest, bytes) = digest.map_err(|source| WriteError::Read {
                path: shown(file.path.as_bytes()),
                source,
            })?;
            let (path, promised) = (shown(file.path.as_bytes()), file.size);
            if bytes > promised {
                return Err(WriteError::Longer { path, promised });
            }
            if bytes < promised {
                return Err(WriteError::Shorter {
                    path,
                    promised,
                    bytes,
                });
            }
            digests.push((format!("{}{}", self.prefix(), file.path), digest));
        }
        Ok(of_digests(digests))
    }
}

fn digest(mut content: impl Read, buffer: &mut [u8]) -> io::Result<([u8; 32], u64)> {
    let (mut digest, mut bytes) = (Sha256::new(), 0);
    loop {
        match content.read(buffer) {
            Ok(0) => return Ok((digest.finalize().into(), bytes)),
            Ok(read) => {
                digest.update(&buffer[..read]);
                bytes += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn of_digests(mut lines: Vec<(String, [u8; 32])>) -> String {
    lines.sort_unstable();
    let mut all = Sha256::new();
    for (name, digest) in lines {
        all.update(faster_hex::hex_string(&digest));
        all.update(format!("  {name}\n"));
    }
    format!("h1:{}", STANDARD.encode(all.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_that_of_a_module_everybody_knows() {
        // The line of rsc.io/quote v1.5.2/go.mod in every go.sum that has it.
        let go_mod = b"module \"rsc.io/quote\"\n\nrequire \"rsc.io/sampler\" v1.3.0\n";
        assert_eq!(
            of_go_mod(go_mod),
            "h1:LzX7hefJvL54yjefDEDHNONDjII0t9xZLPXsUe+TKr0=",
        );
    }
}
