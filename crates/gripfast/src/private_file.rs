//! Files of random secrets that the node makes for itself, and only its user may read.

use std::{
    fs::{self, File, Permissions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use anyhow::Context as _;

/// Random bytes in one, twice as many hex digits.
const BYTES: usize = 32;

/// Takes the secret of the last run, or makes one where there is none that only we could read.
pub(crate) fn take(path: &Path) -> io::Result<String> {
    match read(path) {
        Ok(secret) if is_private(path)? => return Ok(secret),
        Ok(_) => tracing::warn!(
            path = %path.display(),
            "replacing a secret that others could read",
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
        Err(error) => return Err(error),
    }
    let secret = faster_hex::hex_string(&rand::random::<[u8; BYTES]>());
    write(path, &secret)?;
    Ok(secret)
}

/// Takes the key of the last run, or makes one where there is no file. One that is there is never
/// replaced: others know the node by it.
pub(crate) fn keep(path: &Path) -> io::Result<String> {
    match read(path) {
        Ok(key) => {
            if !is_private(path)? {
                tracing::warn!(path = %path.display(), "others could read a key; now they cannot");
                fs::set_permissions(path, Permissions::from_mode(0o600))?;
            }
            Ok(key)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => take(path),
        Err(error) => Err(error),
    }
}

/// The same as bytes.
pub(crate) fn seed(path: &Path) -> anyhow::Result<[u8; BYTES]> {
    let text = keep(path);
    let text = text.with_context(|| format!("cannot keep a key in {}", path.display()))?;
    let mut seed = [0; BYTES];
    faster_hex::hex_decode(text.as_bytes(), &mut seed).context("the key is not hexadecimal")?;
    Ok(seed)
}

/// Keeps a secret that was made elsewhere.
pub(crate) fn put(path: &Path, secret: &str) -> io::Result<()> {
    write(path, secret)
}

/// Reads what a node that runs, or ran, keeps there.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let secret = text.trim();
    let is_ours = secret.len() == 2 * BYTES && secret.bytes().all(|b| b.is_ascii_hexdigit());
    if is_ours {
        Ok(secret.to_owned())
    } else {
        let kind = io::ErrorKind::InvalidData;
        Err(io::Error::new(kind, "holds no secret of ours"))
    }
}

fn is_private(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.mode() & 0o077 == 0)
}

/// Written beside and renamed, so that nobody ever reads half a secret or a public one.
fn write(path: &Path, secret: &str) -> io::Result<()> {
    let beside = path.with_added_extension("new");
    let mut file: File = File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&beside)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    writeln!(file, "{secret}")?;
    file.sync_all()?;
    fs::rename(beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_made_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        let secret = take(&file).unwrap();
        assert_eq!(secret.len(), 64);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(take(&file).unwrap(), secret, "the next run keeps it");
        assert_eq!(read(&file).unwrap(), secret);
    }

    #[test]
    fn a_key_that_is_there_is_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("key");
        let key = keep(&file).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(keep(&file).unwrap(), key);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        fs::write(&file, "nsec1…\n").unwrap();
        assert!(keep(&file).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "nsec1…\n");
    }

    #[test]
    fn a_secret_that_others_could_read_or_that_is_broken_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        let secret = take(&file).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let second = take(&file).unwrap();
        assert_ne!(second, secret);
        fs::write(&file, "short\n").unwrap();
        let third = take(&file).unwrap();
        assert_ne!(third, second);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }
}
