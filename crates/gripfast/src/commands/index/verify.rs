//! `gripfast index verify`: the whole log of the checksum database.
//!
//! The node compares records, tiles and files. Signature, head and records are checked here, from
//! what the node serves to everybody, and so is the proof that the log begins with that of last time.

use std::{fs, io, path::Path};

use anyhow::{Context as _, bail, ensure};
use grip_index::{Finding, Verified};
use grip_tlog::{
    Contents, Frontier, Hash, Tile, TreeHead, Verifier, WIDTH, check_consistency, record_hash,
};
use grip_web::api_types::SumDbView;
use reqwest::Method;
use serde_json::json;

use super::PATH;
use crate::{
    cli::NodeRequest,
    commands::{
        client::Node,
        progress::Progress,
        table::{self, Table},
    },
};

/// Succeeds when nothing is wrong with the log.
pub(super) fn run(
    node: &Node<'_>,
    request: &NodeRequest,
    since: Option<&Path>,
) -> anyhow::Result<()> {
    let view: SumDbView = node.data(&[&PATH[..], &["sumdb"]].concat(), &[])?;
    let verifier: Verifier = view.status.verifier.parse()?;
    let log = Log { node, verifier };
    let (note, head) = log.latest()?;
    let before = since.map(|file| log.read_kept(file)).transpose()?.flatten();
    if let Some(before) = before {
        log.check_since(before, head)?;
    }
    log.check_records(head)?;
    let verified = pages(node, head.size)?;
    if let Some(file) = since.filter(|_| verified.wrong.is_empty()) {
        fs::write(file, note).with_context(|| format!("cannot keep {}", file.display()))?;
    }
    if request.json {
        let all = json!({
            "size": head.size,
            "hash": head.hash.to_string(),
            "since": before.map(|before| before.size),
            "verified": verified,
        });
        anstream::println!("{all:#}");
    } else {
        table::print(&render(&verified, head, before));
    }
    match verified.wrong.len() {
        0 => Ok(()),
        wrong => bail!("{wrong} things are wrong with the checksum database"),
    }
}

/// Has the node compare all records, of which there are about `total`, with its files and tiles.
fn pages(node: &Node<'_>, total: u64) -> anyhow::Result<Verified> {
    let path = [&PATH[..], &["verify"]].concat();
    let mut sum = Verified::default();
    let mut progress = Progress::items("verify files", total);
    let mut next = Some(0);
    while let Some(page) = next {
        let page = node.change(Method::POST, &path, &[("page", &page.to_string())])?;
        let page: Verified = serde_json::from_str(&page).context("the answer cannot be read")?;
        sum.records += page.records;
        sum.matched += page.matched;
        sum.not_here.extend(page.not_here);
        sum.wrong.extend(page.wrong);
        next = page.next;
        // Some may have come since.
        progress.set(sum.records, total.max(sum.records));
    }
    progress.finish();
    Ok(sum)
}

/// The log as everybody reads it.
struct Log<'a> {
    node: &'a Node<'a>,
    verifier: Verifier,
}

impl Log<'_> {
    fn text(&self, path: &str) -> anyhow::Result<String> {
        let name = ["go", "sumdb", self.verifier.name()];
        let path: Vec<&str> = name.into_iter().chain(path.split('/')).collect();
        self.node.text(&path, &[])
    }

    fn latest(&self) -> anyhow::Result<(String, TreeHead)> {
        let note = self.text("latest")?;
        let head = self
            .open(&note)
            .context("the head is not signed as it should be")?;
        Ok((note, head))
    }

    fn open(&self, note: &str) -> anyhow::Result<TreeHead> {
        Ok(TreeHead::parse(self.verifier.open(note)?)?)
    }

    /// The head of the last time; none the first time.
    fn read_kept(&self, file: &Path) -> anyhow::Result<Option<TreeHead>> {
        match fs::read_to_string(file) {
            Ok(note) => {
                let other = || format!("{} holds no head of this log", file.display());
                self.open(&note).with_context(other).map(Some)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    fn check_since(&self, before: TreeHead, head: TreeHead) -> anyhow::Result<()> {
        let shrunk = "the log has fewer records than the last time";
        ensure!(before.size <= head.size, shrunk);
        if before.size == 0 {
            return Ok(());
        }
        let proof = self.text(&format!("consistency/{}/{}", before.size, head.size))?;
        let proof = proof
            .lines()
            .map(str::parse)
            .collect::<Result<Vec<Hash>, _>>()?;
        let (old, new) = ((before.size, before.hash), (head.size, head.hash));
        check_consistency(&proof, old, new).context("the log was changed since the last time")
    }

    /// Checks that the records that are served are those that the head is signed for.
    fn check_records(&self, head: TreeHead) -> anyhow::Result<()> {
        let mut frontier = Frontier::default();
        let mut progress = Progress::items("verify records", head.size);
        while frontier.size() < head.size {
            let tile = Tile {
                contents: Contents::Records,
                index: frontier.size() / WIDTH,
                width: WIDTH.min(head.size - frontier.size()),
            };
            let text = self.text(&format!("tile/{tile}"))?;
            let end = frontier.size() + tile.width;
            for record in text.split_terminator("\n\n") {
                let (number, record) = record.split_once('\n').unwrap_or_default();
                let expected = frontier.size().to_string();
                ensure!(
                    number == expected,
                    "record {expected} is not in tile {tile}"
                );
                frontier.append(record_hash(format!("{record}\n").as_bytes()), |_, _| {});
            }
            ensure!(
                frontier.size() == end,
                "tile {tile} has not all of its records"
            );
            progress.add(tile.width);
        }
        progress.finish();
        let why = "the records that are served are not those that the head is signed for";
        ensure!(frontier.root() == head.hash, why);
        Ok(())
    }
}

fn render(verified: &Verified, head: TreeHead, before: Option<TreeHead>) -> String {
    let mut out = String::new();
    for (found, title) in [(&verified.wrong, "wrong"), (&verified.not_here, "not here")] {
        if !found.is_empty() {
            let mut table = Table::new([title, "why"], 1);
            for Finding { what, why } in found {
                table.row([what, why]);
            }
            out.push_str(&table.render());
            out.push('\n');
        }
    }
    out.push_str(&format!(
        "{} records, signed for as {}; {} have the sums of the files here, {} are not here any more\n",
        head.size,
        head.hash,
        verified.matched,
        verified.not_here.len()
    ));
    if let Some(before) = before {
        let size = before.size;
        out.push_str(&format!(
            "the log begins with the {size} records of the last time\n"
        ));
    }
    out
}
