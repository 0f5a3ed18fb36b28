//! The git remote helper of `grip://<npub>/<identifier>`.
//!
//! Git starts it as `git-remote-grip` and talks to it by lines (gitremote-helpers(7)). The refs are
//! those of the signed state in the manifest, which is checked here and not taken from the node's
//! word; their objects come from the first provider that has them all. An object is what its id
//! says, so whichever provider sends it, the result is what the maintainers signed.

use std::{
    collections::BTreeSet,
    env,
    io::{self, BufRead, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use grip_nostr::State;
use grip_resolve::{Key, Manifest, Ranked};
use grip_types::Oid;
use url::Url;

use crate::{
    cli::NodeRequest,
    commands::{client::Node, table::plain},
    config::Flags,
};

const SCHEME: &str = "grip://";
/// Where a person says which node resolves for them.
const NODE_SETTING: &str = "grip.node";
/// Providers that are asked for.
const MAX_PROVIDERS: &str = "20";

/// Serves git until it has no more commands.
pub(crate) fn run(url: &str) -> anyhow::Result<()> {
    let git_dir = env::var_os("GIT_DIR")
        .map(PathBuf::from)
        .context("git starts this command: type git clone grip://<npub>/<identifier>")?;
    let name = url.strip_prefix(SCHEME).unwrap_or(url);
    let key = Key::parse(&format!("nostr://{name}")).with_context(|| plain(url))?;
    let request = NodeRequest {
        flags: Flags::default(),
        url: grip_git::user::config(NODE_SETTING)?,
        json: false,
        limit: None,
    };
    let node = Node::new(&request)
        .with_context(|| format!("git config {NODE_SETTING} names the node that resolves"))?;
    let source = Resolved { node, key };
    let fetch = |url: &Url, oids: &[Oid], is_quiet| {
        grip_git::user::fetch(Path::new(&git_dir), url.as_str(), oids, is_quiet)
    };
    converse(io::stdin().lock(), io::stdout().lock(), &source, fetch)
}

/// All that the helper asks of a node.
trait Source {
    /// The proven manifest of the repository.
    fn manifest(&self) -> anyhow::Result<Manifest>;
    /// URLs that may have its objects, the best first.
    fn providers(&self) -> anyhow::Result<Vec<Url>>;
}

struct Resolved<'a> {
    node: Node<'a>,
    key: Key,
}

impl Source for Resolved<'_> {
    fn manifest(&self) -> anyhow::Result<Manifest> {
        let bytes = self
            .node
            .text(&["resolve", &self.key.to_string()], &[("raw", "true")])?;
        let manifest = Manifest::decode(bytes.as_bytes())
            .with_context(|| format!("{} gave no proven manifest", self.node.name()))?;
        if Key::Name(manifest.name()) != self.key {
            bail!(
                "{} gave the manifest of another repository",
                self.node.name()
            );
        }
        Ok(manifest)
    }

    fn providers(&self) -> anyhow::Result<Vec<Url>> {
        let path = ["providers", &self.key.to_string()];
        let ranked: Ranked = self.node.data(&path, &[("limit", MAX_PROVIDERS)])?;
        Ok(ranked
            .providers
            .into_iter()
            .map(|found| found.url)
            .collect())
    }
}

/// Answers the commands of git, one line each; those to fetch come as a batch with an empty line
/// behind it.
fn converse(
    commands: impl BufRead,
    mut answers: impl Write,
    source: &impl Source,
    fetch: impl Fn(&Url, &[Oid], bool) -> io::Result<bool>,
) -> anyhow::Result<()> {
    let (mut wanted, mut is_quiet) = (BTreeSet::new(), false);
    for line in commands.lines() {
        let line = line?;
        let (command, argument) = line.split_once(' ').unwrap_or((&line, ""));
        match command {
            "capabilities" => answers.write_all(b"fetch\noption\n\n")?,
            "option" => {
                let answer = match argument.split_once(' ') {
                    Some(("verbosity", level)) => {
                        is_quiet = level == "0";
                        "ok"
                    }
                    Some(("progress" | "cloning" | "followtags", _)) => "ok",
                    _ => "unsupported",
                };
                writeln!(answers, "{answer}")?;
            }
            "list" => {
                let manifest = source.manifest()?;
                let state = manifest.state().context("nothing was pushed to it yet")?;
                answers.write_all(listing(state).as_bytes())?;
            }
            "fetch" => {
                let oid = argument.split(' ').next().unwrap_or_default();
                wanted.insert(oid.parse::<Oid>().context("git asked for no object id")?);
            }
            "" if wanted.is_empty() => return Ok(()),
            "" => {
                let oids: Vec<Oid> = std::mem::take(&mut wanted).into_iter().collect();
                fetch_from_any(&source.providers()?, |url| fetch(url, &oids, is_quiet))?;
                answers.write_all(b"\n")?;
            }
            other => bail!("git asked for {}, which grip:// cannot do", plain(other)),
        }
        answers.flush()?;
    }
    Ok(())
}

/// The refs of a state as git reads them, HEAD first.
fn listing(state: &State) -> String {
    let head = state.head.iter().map(|head| format!("@{head} HEAD\n"));
    let refs = state
        .refs
        .iter()
        .map(|(name, oid)| format!("{oid} {name}\n"));
    head.chain(refs).chain(["\n".to_owned()]).collect()
}

/// Goes through the providers until one has given everything that the signed state names. Whatever
/// another one sent moves no ref: at worst objects stay that nothing leads to, until git collects
/// them.
fn fetch_from_any(
    providers: &[Url],
    fetch: impl Fn(&Url) -> io::Result<bool>,
) -> anyhow::Result<()> {
    for (place, url) in providers.iter().enumerate() {
        if place > 0 {
            eprintln!("grip: trying {url}");
        }
        if fetch(url).context("cannot run git")? {
            return Ok(());
        }
        eprintln!("grip: {url} did not give what the signed state names");
    }
    match providers.len() {
        0 => bail!("no provider is known"),
        n => bail!("none of {n} providers has what the signed state names; try again later"),
    }
}

#[cfg(test)]
mod tests;
