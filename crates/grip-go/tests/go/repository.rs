//! A git repository with tags that have nothing in common, and what this crate makes of them.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use grip_go::{
    Found, Module, ModulePath, NotAModule, candidates, implied_go_mod, module_version, sum,
    tag::{self, VersionTag},
    zip::{Entry, Kind, Selection},
};
use tempfile::TempDir;

/// A file to commit: its path and its content.
pub type File<'a> = (&'a str, &'a str);

pub struct Repository {
    dir: TempDir,
}

/// A file as git lists it.
struct Listed {
    path: Vec<u8>,
    kind: Kind,
    oid: String,
    size: u64,
}

impl Repository {
    pub fn new() -> Self {
        let repository = Self {
            dir: TempDir::new().unwrap(),
        };
        repository.git(&["init", "-q", "-b", "main"], b"");
        repository
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Commits exactly these files under a tag. Content that starts with `->` is the target of a
    /// symbolic link, `(submodule)` makes one.
    pub fn tag(&self, tag: &str, files: &[File<'_>]) {
        self.git(&["rm", "-rqf", "--cached", "--ignore-unmatch", "."], b"");
        for (path, content) in files {
            let (mode, oid) = match content.strip_prefix("->") {
                _ if *content == "(submodule)" => ("160000", "1".repeat(40)),
                Some(target) => ("120000", self.blob(target)),
                None => ("100644", self.blob(content)),
            };
            let entry = format!("{mode},{oid},{path}");
            self.git(&["update-index", "--add", "--cacheinfo", &entry], b"");
        }
        self.git(&["commit", "-q", "--allow-empty", "-m", tag], b"");
        self.git(&["tag", tag], b"");
    }

    fn blob(&self, content: &str) -> String {
        let oid = self.git(&["hash-object", "-w", "--stdin"], content.as_bytes());
        String::from_utf8(oid).unwrap().trim().to_owned()
    }

    fn git(&self, args: &[&str], input: &[u8]) -> Vec<u8> {
        let input_path = self.dir.path().join(".git-input");
        fs::write(&input_path, input).unwrap();
        #[expect(clippy::disallowed_methods, reason = "tests need repositories")]
        let output = Command::new("git")
            .current_dir(self.dir.path())
            .args(args)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_AUTHOR_NAME", "Ada")
            .env("GIT_AUTHOR_EMAIL", "ada@example.com")
            .env("GIT_COMMITTER_NAME", "Ada")
            .env("GIT_COMMITTER_EMAIL", "ada@example.com")
            .stdin(Stdio::from(fs::File::open(&input_path).unwrap()))
            .output()
            .expect("git must be installed");
        assert!(
            output.status.success(),
            "git {args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }

    fn list(&self, tag: &str) -> Vec<Listed> {
        let tree = format!("refs/tags/{tag}");
        let text = self.git(&["ls-tree", "-r", "-l", "-z", &tree], b"");
        text.split(|&byte| byte == 0)
            .filter(|line| !line.is_empty())
            .map(|line| {
                let tab = line.iter().position(|&byte| byte == b'\t').unwrap();
                let (head, path) = (std::str::from_utf8(&line[..tab]).unwrap(), &line[tab + 1..]);
                let [mode, _, oid, size] = head.split_whitespace().collect::<Vec<_>>()[..] else {
                    panic!("{head}");
                };
                Listed {
                    path: path.to_vec(),
                    kind: match mode {
                        "100644" | "100755" => Kind::File,
                        "120000" => Kind::Symlink,
                        _ => Kind::Other,
                    },
                    oid: oid.to_owned(),
                    size: size.parse().unwrap_or(0),
                }
            })
            .collect()
    }

    fn read(&self, listed: &Listed) -> Vec<u8> {
        self.git(&["cat-file", "blob", &listed.oid], b"")
    }

    /// What the crate makes of a tag.
    pub fn release(&self, location: &ModulePath, tag: &str) -> Result<Release, NotAModule> {
        let name = tag;
        let tag = tag::read(tag).expect("the tag names a version");
        let listing = self.list(name);
        let go_mod = |dir: &str| {
            let path = match dir {
                "" => "go.mod".to_owned(),
                _ => format!("{dir}/go.mod"),
            };
            let listed = listing
                .iter()
                .find(|listed| listed.path == path.as_bytes() && listed.kind != Kind::Other);
            listed.map(|listed| self.read(listed))
        };
        let places = candidates(&tag);
        let own = go_mod(&places.own);
        let major = places.major.as_deref().and_then(go_mod);
        let module = module_version(
            &tag,
            location,
            Found::from(own.as_deref()),
            Found::from(major.as_deref()),
        )?;
        let text = if !module.has_go_mod {
            None
        } else if module.dir == tag.dir {
            own
        } else {
            major
        };
        Ok(self.pack(tag, module, text, &listing))
    }

    fn pack(
        &self,
        tag: VersionTag,
        module: Module,
        go_mod: Option<Vec<u8>>,
        listing: &[Listed],
    ) -> Release {
        let entries: Vec<_> = listing
            .iter()
            .map(|listed| Entry {
                path: &listed.path,
                kind: listed.kind,
                size: listed.size,
            })
            .collect();
        let text = go_mod.clone().unwrap_or_default();
        let selection = Selection::check(&module, &text, &entries).unwrap();
        let content: Vec<_> = selection
            .files()
            .iter()
            .map(|file| self.read(&listing[file.entry]))
            .collect();
        let mut zip = Vec::new();
        let mut blobs = content.iter();
        selection
            .write_to(&mut zip, |_| Ok(blobs.next().unwrap().as_slice()))
            .unwrap();
        let named = selection.files().iter().zip(&content);
        let sum = sum::of_files(named.map(|(file, content)| {
            let name = format!("{}{}", selection.prefix(), file.path);
            (name, content.as_slice())
        }));
        let go_mod = go_mod.unwrap_or_else(|| implied_go_mod(&module.path).into_bytes());
        Release {
            tag,
            files: selection.files().iter().map(|f| f.path.clone()).collect(),
            module,
            go_mod,
            zip,
            sum,
        }
    }
}

/// A version of a module with all that a proxy serves of it.
pub struct Release {
    pub tag: VersionTag,
    pub module: Module,
    pub go_mod: Vec<u8>,
    pub zip: Vec<u8>,
    pub sum: String,
    pub files: Vec<String>,
}

impl Release {
    /// As the go tool names it.
    pub fn name(&self) -> String {
        format!("{}@{}", self.module.path, self.module.version)
    }

    pub fn go_mod_sum(&self) -> String {
        sum::of_go_mod(&self.go_mod)
    }
}
