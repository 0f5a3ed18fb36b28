//! The `packed-refs` file.

use std::fmt::Write;

use grip_types::{Oid, RefName};

use super::Ref;

/// Tells git that tags are peeled and lines sorted, so that it can search the file.
const HEADER: &str = "# pack-refs with: peeled fully-peeled sorted \n";

/// Why a `packed-refs` file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of packed-refs is not `<oid> <ref>`")]
pub struct InvalidPackedRefs {
    line: usize,
}

/// Reads a file of ours or another's; the refs come back sorted.
pub(crate) fn parse(contents: &[u8]) -> Result<Vec<Ref>, InvalidPackedRefs> {
    let mut refs: Vec<Ref> = Vec::new();
    for (at, line) in contents.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        parse_line(line, &mut refs).ok_or(InvalidPackedRefs { line: at + 1 })?;
    }
    if !refs.is_sorted_by(|a, b| a.name < b.name) {
        refs.sort_by(|a, b| a.name.cmp(&b.name));
        refs.dedup_by(|a, b| a.name == b.name);
    }
    Ok(refs)
}

fn parse_line(line: &[u8], refs: &mut Vec<Ref>) -> Option<()> {
    if let Some(peeled) = line.strip_prefix(b"^") {
        refs.last_mut()?.peeled = Some(Oid::from_hex(peeled).ok()?);
        return Some(());
    }
    let (oid, name) = line.split_at_checked(40)?;
    let name = std::str::from_utf8(name.strip_prefix(b" ")?).ok()?;
    refs.push(Ref {
        name: RefName::parse(name).ok()?,
        oid: Oid::from_hex(oid).ok()?,
        peeled: None,
    });
    Some(())
}

/// Writes refs that are sorted by name.
pub(crate) fn write(refs: &[Ref]) -> Vec<u8> {
    let mut out = String::with_capacity(HEADER.len() + refs.len() * 80);
    out.push_str(HEADER);
    for Ref { name, oid, peeled } in refs {
        let _ = writeln!(out, "{oid} {name}");
        if let Some(peeled) = peeled {
            let _ = writeln!(out, "^{peeled}");
        }
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_ref() -> impl Strategy<Value = Ref> {
        let oid = || proptest::array::uniform20(any::<u8>());
        (
            "[a-z]{1,8}(/[a-z]{1,8})?",
            oid(),
            proptest::option::of(oid()),
        )
            .prop_map(|(name, oid, peeled)| Ref {
                name: RefName::parse(&format!("refs/heads/{name}")).unwrap(),
                oid: Oid::from_bytes(&oid).unwrap(),
                peeled: peeled.map(|oid| Oid::from_bytes(&oid).unwrap()),
            })
    }

    #[test]
    fn an_unsorted_file_of_another_writer_is_sorted() {
        let a = "a".repeat(40);
        let text = format!("# pack-refs with: peeled\n{a} refs/tags/b\n^{a}\n{a} refs/heads/a\n");
        let refs = parse(text.as_bytes()).unwrap();
        assert_eq!(refs[0].name.as_str(), "refs/heads/a");
        assert_eq!(refs[1].peeled, Some(a.parse().unwrap()));
    }

    #[test]
    fn broken_lines_are_errors_with_their_number() {
        assert_eq!(
            parse(b"# x\nnonsense\n"),
            Err(InvalidPackedRefs { line: 2 })
        );
        assert!(parse(b"^aaaa\n").is_err());
        let a = "a".repeat(40);
        assert!(parse(format!("{a} ../../etc/passwd\n").as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(mut refs in proptest::collection::vec(any_ref(), 0..20)) {
            refs.sort_by(|a, b| a.name.cmp(&b.name));
            refs.dedup_by(|a, b| a.name == b.name);
            prop_assert_eq!(parse(&write(&refs)).unwrap(), refs);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
        }
    }
}
