//! The file that opens the node to its operator: made by the node, read by our own commands.

use std::{
    fs::{self, File, Permissions},
    io::{self, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

/// Its name in the data directory.
const NAME: &str = "admin.token";
/// Random bytes in it, twice as many hex digits.
const BYTES: usize = 32;

pub(crate) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(NAME)
}

/// Takes the token of the last run, or makes one where there is none that only we could read.
pub(crate) fn make(data_dir: &Path) -> io::Result<String> {
    let path = path(data_dir);
    match read(&path) {
        Ok(token) if is_private(&path)? => return Ok(token),
        Ok(_) => tracing::warn!(
            path = %path.display(),
            "others could read the admin token: it is made anew",
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
        Err(error) => return Err(error),
    }
    let token = hex(&rand::random::<[u8; BYTES]>());
    write(&path, &token)?;
    Ok(token)
}

/// Reads the token of a node that runs, or ran, with this directory.
pub(crate) fn read(path: &Path) -> io::Result<String> {
    let text = fs::read_to_string(path)?;
    let token = text.trim();
    let is_ours = token.len() == 2 * BYTES && token.bytes().all(|b| b.is_ascii_hexdigit());
    match is_ours {
        true => Ok(token.to_owned()),
        false => Err(io::Error::new(io::ErrorKind::InvalidData, "holds no token")),
    }
}

fn is_private(path: &Path) -> io::Result<bool> {
    Ok(fs::metadata(path)?.mode() & 0o077 == 0)
}

/// Written beside and renamed, so that nobody ever reads half a token or a public one.
fn write(path: &Path, token: &str) -> io::Result<()> {
    let beside = path.with_extension("token.new");
    let mut file: File = File::options()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&beside)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    writeln!(file, "{token}")?;
    file.sync_all()?;
    fs::rename(beside, path)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_and_only_its_owner_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let token = make(dir.path()).unwrap();
        assert_eq!(token.len(), 64);
        let file = path(dir.path());
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        assert_eq!(make(dir.path()).unwrap(), token, "the next run keeps it");
        assert_eq!(read(&file).unwrap(), token);
    }

    #[test]
    fn a_token_that_others_could_read_or_that_is_broken_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let token = make(dir.path()).unwrap();
        let file = path(dir.path());
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let second = make(dir.path()).unwrap();
        assert_ne!(second, token);
        fs::write(&file, "short\n").unwrap();
        let third = make(dir.path()).unwrap();
        assert_ne!(third, second);
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    }
}
