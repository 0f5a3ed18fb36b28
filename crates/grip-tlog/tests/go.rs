//! Notes and proofs, checked by golang.org/x/mod/sumdb as the installed Go has it.

use std::{fmt::Write as _, fs, path::Path, process::Command};

use grip_tlog::{
    Contents, Frontier, HEIGHT, Hash, Signer, SpanHasher, Tile, TreeHead, consistency_spans,
    record_hash,
};

const CHECK: &str = r#"package main

import (
	"bufio"
	"fmt"
	"log"
	"os"
	"strings"

	"example.com/check/note"
	"example.com/check/tlog"
)

func main() {
	verifier, err := note.NewVerifier(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	data, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	opened, err := note.Open(data, note.VerifierList(verifier))
	if err != nil {
		log.Fatal(err)
	}
	tree, err := tlog.ParseTree([]byte(opened.Text))
	if err != nil {
		log.Fatal(err)
	}
	hash := func(text string) tlog.Hash {
		h, err := tlog.ParseHash(text)
		if err != nil {
			log.Fatal(err)
		}
		return h
	}
	proofs, err := os.Open(os.Args[3])
	if err != nil {
		log.Fatal(err)
	}
	lines := bufio.NewScanner(proofs)
	checked := 0
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		var size int64
		fmt.Sscan(fields[0], &size)
		var proof tlog.TreeProof
		for _, field := range fields[2:] {
			proof = append(proof, hash(field))
		}
		if err := tlog.CheckTree(proof, tree.N, tree.Hash, size, hash(fields[1])); err != nil {
			log.Fatal(size, err)
		}
		checked++
	}
	fmt.Println(tree.N, checked)
}
"#;

/// The levels of tiles of a log, and its head after each record.
#[derive(Default)]
struct Log {
    frontier: Frontier,
    levels: [Vec<Hash>; 3],
    heads: Vec<Hash>,
}

impl Log {
    fn append(&mut self, record: &str) {
        let record = record_hash(record.as_bytes());
        self.levels[0].push(record);
        let levels = &mut self.levels;
        self.frontier.append(record, |node, hash| {
            levels[usize::from(node.level / HEIGHT)].push(hash);
        });
        self.heads.push(self.frontier.root());
    }

    fn tile(&self, tile: Tile) -> Option<Vec<Hash>> {
        let Contents::Hashes(level) = tile.contents else {
            return None;
        };
        let first = tile.first()? as usize;
        let level = self.levels.get(usize::from(level))?;
        Some(level.get(first..first + tile.width as usize)?.to_vec())
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("the sources of go") {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        let code = fs::read_to_string(entry.path()).expect("a source file");
        // The one import that is not of the standard library has moved there.
        let code = code.replace("golang.org/x/crypto/ed25519", "crypto/ed25519");
        fs::write(to.join(name), code).expect("a copy");
    }
}

#[expect(clippy::disallowed_methods, reason = "the real go is the judge here")]
fn go(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new("go")
        .current_dir(dir)
        .args(arguments)
        .env("GOFLAGS", "-mod=mod")
        .env("GOPROXY", "off")
        .env("GOCACHE", dir.join("cache"))
        .output()
        .expect("go must be installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "go {arguments:?}: {said}");
    String::from_utf8(output.stdout)
        .expect("text")
        .trim()
        .to_owned()
}

#[test]
fn go_opens_the_note_and_takes_every_proof() {
    const SIZE: u64 = 1_000;
    let dir = tempfile::tempdir().unwrap();
    let root = go(dir.path(), &["env", "GOROOT"]);
    let sumdb = Path::new(&root).join("src/cmd/vendor/golang.org/x/mod/sumdb");
    for package in ["note", "tlog"] {
        copy(&sumdb.join(package), &dir.path().join(package));
    }
    fs::write(
        dir.path().join("go.mod"),
        "module example.com/check\n\ngo 1.19\n",
    )
    .unwrap();
    fs::write(dir.path().join("main.go"), CHECK).unwrap();

    let mut log = Log::default();
    for number in 0..SIZE {
        log.append(&format!("example.com/m v1.{number}.0 h1:\n"));
    }
    let mut proofs = String::new();
    for old in 1..=SIZE {
        let spans = consistency_spans(old, SIZE).unwrap();
        let _ = write!(proofs, "{old} {}", log.heads[old as usize - 1]);
        for span in spans {
            let hash = SpanHasher::new(&span).hash(|tile| log.tile(tile)).unwrap();
            let _ = write!(proofs, " {hash}");
        }
        proofs.push('\n');
    }
    fs::write(dir.path().join("proofs"), proofs).unwrap();
    let signer = Signer::new("sum.example.com", &[42; 32]).unwrap();
    let head = TreeHead {
        size: SIZE,
        hash: log.frontier.root(),
    };
    fs::write(dir.path().join("head"), signer.sign(&head.to_note())).unwrap();
    let key = signer.verifier().to_string();
    let said = go(dir.path(), &["run", ".", &key, "head", "proofs"]);
    assert_eq!(said, "1000 1000");
}
