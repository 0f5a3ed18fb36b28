use tempfile::TempDir;

use super::*;

pub(in super::super) fn facts() -> ModuleFacts {
    ModuleFacts {
        path: "example.com/a".to_owned(),
        version: "v1.0.0".to_owned(),
        repo: "github.com/a/a".to_owned(),
        is_public: true,
        tag: "v1.0.0".to_owned(),
        commit: "c".repeat(40),
        dir: String::new(),
        committed_at_ms: 1,
        has_go_mod: true,
        zip_sum: "h1:zip".to_owned(),
        go_mod_sum: "h1:mod".to_owned(),
        zip_bytes: 0,
        go_mod_bytes: 0,
        go_mod_digest: String::new(),
        chunk_digests: Vec::new(),
    }
}

fn written(dir: &TempDir, zip: &[u8]) -> PathBuf {
    let mut draft = Draft::create(dir.path().join("draft")).unwrap();
    draft.write_all(zip).unwrap();
    let finished = draft.finish(facts(), b"module example.com/a\n").unwrap();
    let path = dir.path().join("kept");
    finished.keep_as(&path).unwrap();
    path
}

fn zip_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut zip = Vec::new();
    FetchedModule::open(path)?.copy_zip_to(&mut zip)?;
    Ok(zip)
}

#[test]
fn what_was_written_is_read_whatever_its_size() {
    for size in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 7] {
        let dir = TempDir::new().unwrap();
        let zip: Vec<u8> = (0..size).map(|n| (n % 251) as u8).collect();
        let path = written(&dir, &zip);
        let module = FetchedModule::open(&path).unwrap();
        assert_eq!(module.facts.zip_bytes, size as u64);
        assert_eq!(&module.go_mod[..], b"module example.com/a\n");
        assert_eq!(zip_of(&path).unwrap(), zip);
        let left: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "no draft is left");
    }
}

#[test]
fn no_changed_byte_leaves() {
    let dir = TempDir::new().unwrap();
    let path = written(&dir, &vec![7; CHUNK_BYTES + 100]);
    let whole = fs::read(&path).unwrap();
    for at in [
        0,
        CHUNK_BYTES + 50,
        CHUNK_BYTES + 105,
        whole.len() - 60,
        whole.len() - 1,
    ] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&path, &changed).unwrap();
        let error = zip_of(&path).expect_err("a changed byte is noticed");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "at {at}");
    }
    for length in [0, 1, 39, 40, 100, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        let error = zip_of(&path).expect_err("a missing byte is noticed");
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "to {length}");
    }
}

#[test]
fn a_draft_that_is_given_up_leaves_nothing() {
    let dir = TempDir::new().unwrap();
    let mut draft = Draft::create(dir.path().join("draft")).unwrap();
    draft.write_all(b"half").unwrap();
    drop(draft);
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
}
