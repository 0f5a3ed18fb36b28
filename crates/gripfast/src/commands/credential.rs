//! `gripfast credential`: the helper by which git gets into repositories of private services.
//!
//! Git asks a helper for a user name and a password; the password is a proof of the key for this one
//! repository (GRASP-08, NIP-98), which counts for a minute. The key is in a file, or with a remote
//! signer (NIP-46).

mod bunker;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use grip_nostr::{Event, Timestamp, repository_proof, repository_root, unsigned_repository_proof};
use nostr::prelude::Keys;
use url::Url;

/// How long a proof counts, in seconds.
const LIFETIME: u64 = 60;
/// Longest request of git, and longest key file, that are read.
const MAX_BYTES: u64 = 64 << 10;

/// Where the key is.
#[derive(Debug)]
pub(crate) enum KeySource {
    /// A file with the key itself.
    Key(PathBuf),
    /// A file with the `bunker://` URI of a remote signer.
    Bunker(PathBuf),
}

impl KeySource {
    pub(crate) fn named(key: Option<PathBuf>, bunker: Option<PathBuf>) -> anyhow::Result<Self> {
        let named = key.map(Self::Key).or(bunker.map(Self::Bunker));
        named.context("name a file with --key-file or --bunker-file")
    }
}

/// Answers one request of git on standard input.
pub(crate) fn run(source: &KeySource, operation: &str) -> anyhow::Result<()> {
    // There is nothing to store or to erase, and git asks to leave out what is not known.
    if operation != "get" {
        return Ok(());
    }
    let mut request = String::new();
    let mut input = io::stdin().lock().take(MAX_BYTES);
    input
        .read_to_string(&mut request)
        .context("cannot read the request of git")?;
    let Some(url) = repository(&request)? else {
        return Ok(());
    };
    let root = repository_root(&url);
    let proof = match source {
        KeySource::Key(file) => {
            let proof = repository_proof(&read_key(file)?, &root, Timestamp::now());
            proof.context("cannot sign")?
        }
        // Of the moment when the signer is asked: pairing with it may take a while.
        KeySource::Bunker(file) => bunker::sign(file, |key| {
            unsigned_repository_proof(key, &root, Timestamp::now())
        })?,
    };
    anstream::print!("{}", answer(&proof)?);
    Ok(())
}

/// The URL that git asks for; none where it is not one that is reached over HTTP.
fn repository(request: &str) -> anyhow::Result<Option<Url>> {
    let lines = request.lines().take_while(|line| !line.is_empty());
    let fields: BTreeMap<_, _> = lines.filter_map(|line| line.split_once('=')).collect();
    let (Some(protocol @ ("http" | "https")), Some(host)) =
        (fields.get("protocol").copied(), fields.get("host").copied())
    else {
        return Ok(None);
    };
    let Some(path) = fields.get("path") else {
        bail!(
            "git does not say for which repository: set it up with\n  \
             git config --global credential.{protocol}://{host}.useHttpPath true"
        );
    };
    let url = format!("{protocol}://{host}/{path}");
    let url = Url::parse(&url).with_context(|| format!("{url} is no URL"))?;
    Ok(Some(url))
}

fn answer(proof: &Event) -> anyhow::Result<String> {
    let token = STANDARD.encode(serde_json::to_vec(proof)?);
    let until = proof.created_at.as_secs() + LIFETIME;
    Ok(format!(
        "username=nostr\npassword={token}\npassword_expiry_utc={until}\n"
    ))
}

fn read_key(file: &Path) -> anyhow::Result<Keys> {
    let keys = Keys::parse(read_secret(file)?.trim());
    keys.ok().with_context(|| {
        let shown = file.display();
        format!("{shown} holds no private key (nsec1… or 64 hex digits)")
    })
}

/// Reads a file that only its owner can read.
fn read_secret(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let opened = fs::File::open(file).with_context(|| format!("cannot read {shown}"))?;
    let mode = opened.metadata()?.mode();
    ensure!(
        mode & 0o077 == 0,
        "others can read {shown}: run chmod 600 on it"
    );
    let mut text = String::new();
    opened
        .take(MAX_BYTES)
        .read_to_string(&mut text)
        .with_context(|| format!("cannot read {shown}"))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_gets_a_proof_for_the_repository_it_asks_for() {
        let keys = Keys::generate();
        let request = "capability[]=authtype\nprotocol=https\nhost=git.example:8443\n\
                       path=npub1x/my%20tides.git\n\nhost=ignored\n";
        let url = repository(request).unwrap().unwrap();
        let at = Timestamp::from_secs(1000);
        let proof = repository_proof(&keys, &repository_root(&url), at).unwrap();
        let text = answer(&proof).unwrap();
        let password = text.lines().nth(1).unwrap().strip_prefix("password=");
        let json = STANDARD.decode(password.unwrap()).unwrap();
        let proof: grip_nostr::Event = serde_json::from_slice(&json).unwrap();
        assert_eq!(proof.pubkey, keys.public_key());
        assert_eq!(
            grip_nostr::first_value(&proof, "u"),
            Some("https://git.example:8443/npub1x/my%20tides.git")
        );
        assert!(text.starts_with("username=nostr\n"));
        assert!(text.ends_with("password_expiry_utc=1060\n"));
    }

    #[test]
    fn git_is_told_to_pass_the_path_and_other_protocols_are_left_alone() {
        let error = repository("protocol=https\nhost=git.example\n").unwrap_err();
        assert!(error.to_string().contains("useHttpPath"), "{error}");
        assert!(repository("protocol=ssh\nhost=x\n").unwrap().is_none());
        assert!(repository("").unwrap().is_none());
    }
}
