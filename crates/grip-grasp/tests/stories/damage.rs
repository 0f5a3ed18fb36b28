//! Damage to a data directory: the node starts, serves what is sound, names what is not, and mends
//! what events or another server can bring back.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use grip_grasp::DataSource;
use grip_testkit::{Author, WorkTree, wire};
use grip_types::Identifier;

use crate::node::{HELD, Node, ZERO, addr, announce};

/// What becomes of a damaged repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// It is as before: nothing was lost, or events say it all.
    Whole,
    /// It is not served, and named; its data is looked for and makes it whole.
    Fetched,
    /// It is not served, and named, until a person has looked at it.
    Named,
}

type Harm = fn(&Paths);

struct Paths {
    /// The repository.
    repo: PathBuf,
    /// The packs of its identifier.
    packs: PathBuf,
    root: PathBuf,
}

impl Paths {
    fn pack(&self, extension: &str) -> PathBuf {
        let entries = fs::read_dir(&self.packs).unwrap();
        let mut files = entries.map(|entry| entry.unwrap().path());
        files
            .find(|path| path.extension().is_some_and(|it| it == extension))
            .unwrap()
    }
}

fn cut(path: &Path, to: u64) {
    writable(path);
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(to).unwrap();
}

fn write(path: &Path, bytes: &[u8]) {
    if path.exists() {
        writable(path);
    }
    fs::write(path, bytes).unwrap();
}

fn append(path: &Path, bytes: &[u8]) {
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
}

#[expect(
    clippy::permissions_set_readonly_false,
    reason = "packs are read-only files of a test"
)]
fn writable(path: &Path) {
    let mut permissions = fs::metadata(path).unwrap().permissions();
    permissions.set_readonly(false);
    fs::set_permissions(path, permissions).unwrap();
}

fn config(paths: &Paths, text: &str) {
    write(&paths.repo.join("config"), text.as_bytes());
}

/// Twenty kinds of damage.
const DAMAGE: [(&str, Harm, Ends); 22] = [
    (
        "pack missing",
        |p| fs::remove_file(p.pack("pack")).unwrap(),
        Ends::Fetched,
    ),
    (
        "pack cut short",
        |p| cut(&p.pack("pack"), 40),
        Ends::Fetched,
    ),
    ("pack empty", |p| cut(&p.pack("pack"), 0), Ends::Fetched),
    (
        "pack is no pack",
        |p| write(&p.pack("pack"), &[7; 4096]),
        Ends::Fetched,
    ),
    (
        "index missing",
        |p| fs::remove_file(p.pack("idx")).unwrap(),
        Ends::Fetched,
    ),
    (
        "index cut short",
        |p| cut(&p.pack("idx"), 100),
        Ends::Fetched,
    ),
    (
        "index of another pack",
        |p| write(&p.pack("idx"), &[7; 4096]),
        Ends::Fetched,
    ),
    (
        "all packs missing",
        |p| fs::remove_dir_all(&p.packs).unwrap(),
        Ends::Fetched,
    ),
    (
        "store missing",
        |p| fs::remove_dir_all(p.packs.parent().unwrap().parent().unwrap()).unwrap(),
        Ends::Fetched,
    ),
    (
        "store without objects",
        |p| fs::remove_dir_all(p.packs.parent().unwrap()).unwrap(),
        Ends::Fetched,
    ),
    (
        "packed-refs garbled",
        |p| write(&p.repo.join("packed-refs"), b"\x00\x01garbage\n"),
        Ends::Whole,
    ),
    (
        "packed-refs missing",
        |p| fs::remove_file(p.repo.join("packed-refs")).unwrap(),
        Ends::Whole,
    ),
    (
        "packed-refs empty",
        |p| cut(&p.repo.join("packed-refs"), 0),
        Ends::Whole,
    ),
    (
        "packed-refs names a missing object",
        |p| {
            append(
                &p.repo.join("packed-refs"),
                format!("{} refs/heads/zz\n", "1".repeat(40)).as_bytes(),
            );
        },
        Ends::Whole,
    ),
    (
        "HEAD missing",
        |p| fs::remove_file(p.repo.join("HEAD")).unwrap(),
        Ends::Whole,
    ),
    (
        "HEAD garbled",
        |p| write(&p.repo.join("HEAD"), b"nonsense"),
        Ends::Whole,
    ),
    (
        "repository missing",
        |p| fs::remove_dir_all(&p.repo).unwrap(),
        Ends::Whole,
    ),
    (
        "sha256",
        |p| {
            config(
                p,
                "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n",
            );
        },
        Ends::Named,
    ),
    (
        "reftable",
        |p| {
            config(
                p,
                "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\trefstorage = reftable\n",
            );
        },
        Ends::Named,
    ),
    (
        "foreign alternates",
        |p| {
            config(p, "[core]\n\tbare = true\n");
            write(
                &p.repo.join("objects/info/alternates"),
                b"/elsewhere/objects\n",
            );
        },
        Ends::Named,
    ),
    (
        "alternates missing",
        |p| fs::remove_file(p.repo.join("objects/info/alternates")).unwrap(),
        Ends::Whole,
    ),
    (
        "symbolic link in its place",
        |p| {
            let aside = p.root.join("aside");
            fs::rename(&p.repo, &aside).unwrap();
            symlink(&aside, &p.repo).unwrap();
        },
        Ends::Named,
    ),
];

/// A served repository of one commit.
async fn publish(node: &Node, owner: &Author, name: &str, tree: &WorkTree) -> String {
    let tip = tree.tip("HEAD").unwrap();
    node.accepts(&announce(owner, name, &[]), HELD).await;
    let refs = [("refs/heads/main", tip.as_str())];
    let state = owner.state(name, &refs, Some("refs/heads/main"));
    node.accepts(&state, HELD).await;
    let push = [(ZERO, tip.as_str(), "refs/heads/main")];
    node.push(&addr(owner, name), tree, &push).await.taken("");
    tip
}

async fn suffers(what: &str, harm: Harm, ends: Ends) {
    let (owner, mut node) = (Author::new(), Node::start().await);
    let tree = WorkTree::with_commit().unwrap();
    let tip = publish(&node, &owner, "sound", &tree).await;
    publish(&node, &owner, "x", &tree).await;
    let repo = addr(&owner, "x");
    let root = node
        .path_of(&repo)
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .to_owned();
    let paths = Paths {
        repo: node.path_of(&repo),
        packs: root.join(".objects/x.git/objects/pack"),
        root,
    };
    node.restart_after(|| harm(&paths)).await;
    let sound = addr(&owner, "sound");
    assert_eq!(node.refs(&sound)["refs/heads/main"], tip, "{what}");
    assert_eq!(node.grasp().damage(&sound), None, "{what}");
    let damage = node.grasp().damage(&repo);
    assert_eq!(damage.is_none(), ends == Ends::Whole, "{what}: {damage:?}");
    if ends == Ends::Fetched {
        let wanted = node.grasp().stats().purgatory.wanted;
        assert_eq!(wanted, 1, "{what}: its data is looked for");
        let pack = wire::pack(&tree, &tip, None).await.unwrap();
        node.receive("x", pack).await.promote().unwrap();
        let x = Identifier::parse("x").unwrap();
        let grasp = node.grasp();
        grasp
            .process_newly_available_git_data(&x, DataSource::Fetch)
            .await;
        assert_eq!(grasp.damage(&repo), None, "{what}");
        assert_eq!(grasp.stats().purgatory.wanted, 0, "{what}");
    }
    if ends != Ends::Named {
        assert_eq!(node.refs(&repo)["refs/heads/main"], tip, "{what}");
        assert_eq!(node.refs(&repo)["HEAD"], "refs/heads/main", "{what}");
        node.agrees().await;
    }
}

#[tokio::test]
async fn damage_to_packs_is_noticed_and_mended_by_a_fetch() {
    for (what, harm, ends) in DAMAGE {
        if ends == Ends::Fetched {
            suffers(what, harm, ends).await;
        }
    }
}

#[tokio::test]
async fn damage_to_refs_is_mended_by_what_the_events_say() {
    for (what, harm, ends) in DAMAGE {
        if ends == Ends::Whole {
            suffers(what, harm, ends).await;
        }
    }
}

#[tokio::test]
async fn a_repository_that_cannot_be_used_is_named_and_stops_no_other() {
    for (what, harm, ends) in DAMAGE {
        if ends == Ends::Named {
            suffers(what, harm, ends).await;
        }
    }
}
