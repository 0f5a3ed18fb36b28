//! Signed notes (golang.org/x/mod/sumdb/note) and the head of a log as one.

use std::{fmt, str::FromStr};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use sha2::{Digest, Sha256};

use crate::Hash;

/// The kind of key that Go knows.
const ED25519_KEY: u8 = 1;
/// What a line with a signature begins with.
const SIGNED_BY: &str = "\u{2014} ";
/// The first line of a head, by which Go tells it from other notes.
const TREE: &str = "go.sum database tree";
/// The most that a note has which is read at all, as in Go.
const MAX_NOTE_BYTES: usize = 1_000_000;
/// The most lines with signatures that are looked at.
const MAX_SIGNATURES: usize = 100;

/// Why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidKey {
    #[error("a name of a key has neither spaces nor `+`, and is not empty")]
    Name,
    #[error("a verifier key is `<name>+<hash>+<key>`, with an Ed25519 key")]
    Form,
    #[error("the hash of the verifier key is not that of its name and key")]
    Hash,
}

/// Why a note does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidNote {
    #[error("the text is no signed note")]
    Form,
    #[error("the note is not signed by {0}")]
    NotSigned(String),
    #[error("the signature of {0} is not one of this note")]
    Signature(String),
    #[error("the note is no head of a log")]
    Head,
}

/// A key that signs notes.
pub struct Signer {
    verifier: Verifier,
    pair: Ed25519KeyPair,
}

/// A key by which notes are checked.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    name: String,
    hash: [u8; 4],
    key: [u8; 32],
}

/// How far a log has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeHead {
    pub size: u64,
    pub hash: Hash,
}

impl Signer {
    pub fn new(name: &str, seed: &[u8; 32]) -> Result<Self, InvalidKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| InvalidKey::Form)?;
        let key = pair.public_key().as_ref().try_into();
        let verifier = Verifier::of(name, key.map_err(|_| InvalidKey::Form)?)?;
        Ok(Self { verifier, pair })
    }

    pub fn verifier(&self) -> &Verifier {
        &self.verifier
    }

    /// Signs a text that ends with a newline. The same text has the same signature.
    pub fn sign(&self, text: &str) -> String {
        let signature = self.pair.sign(text.as_bytes());
        let signed = [&self.verifier.hash[..], signature.as_ref()].concat();
        let (name, signed) = (&self.verifier.name, STANDARD.encode(signed));
        format!("{text}\n{SIGNED_BY}{name} {signed}\n")
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({})", self.verifier)
    }
}

impl Verifier {
    fn of(name: &str, key: [u8; 32]) -> Result<Self, InvalidKey> {
        let is_name = !name.is_empty() && !name.contains(|c: char| c.is_whitespace() || c == '+');
        if !is_name {
            return Err(InvalidKey::Name);
        }
        let digest = Sha256::new()
            .chain_update(name)
            .chain_update([b'\n', ED25519_KEY])
            .chain_update(key)
            .finalize();
        let hash = [digest[0], digest[1], digest[2], digest[3]];
        let name = name.to_owned();
        Ok(Self { name, hash, key })
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks that a note is signed by this key, and returns its text.
    pub fn open<'a>(&self, note: &'a str) -> Result<&'a str, InvalidNote> {
        if note.len() > MAX_NOTE_BYTES {
            return Err(InvalidNote::Form);
        }
        let (text, signatures) = note.rsplit_once("\n\n").ok_or(InvalidNote::Form)?;
        let text = &note[..text.len() + 1];
        let signatures = signatures.strip_suffix('\n').ok_or(InvalidNote::Form)?;
        for line in signatures.split('\n').take(MAX_SIGNATURES) {
            let line = line.strip_prefix(SIGNED_BY).ok_or(InvalidNote::Form)?;
            let (name, signed) = line.split_once(' ').ok_or(InvalidNote::Form)?;
            let signed = STANDARD.decode(signed).map_err(|_| InvalidNote::Form)?;
            let (hash, signature) = signed.split_at_checked(4).ok_or(InvalidNote::Form)?;
            if name != self.name || hash != self.hash {
                continue;
            }
            let key = UnparsedPublicKey::new(&ED25519, self.key);
            return match key.verify(text.as_bytes(), signature) {
                Ok(()) => Ok(text),
                Err(_) => Err(InvalidNote::Signature(self.name.clone())),
            };
        }
        Err(InvalidNote::NotSigned(self.name.clone()))
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = u32::from_be_bytes(self.hash);
        let key = STANDARD.encode([&[ED25519_KEY][..], &self.key].concat());
        write!(f, "{}+{hash:08x}+{key}", self.name)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Verifier {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        // The key itself may have a `+`: base64 does.
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(hash), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(InvalidKey::Form);
        };
        let key = STANDARD.decode(key).map_err(|_| InvalidKey::Form)?;
        let key = key.strip_prefix(&[ED25519_KEY]).ok_or(InvalidKey::Form)?;
        let verifier = Self::of(name, key.try_into().map_err(|_| InvalidKey::Form)?)?;
        let named = u32::from_str_radix(hash, 16).map_err(|_| InvalidKey::Form)?;
        if hash.len() == 8 && named.to_be_bytes() == verifier.hash {
            Ok(verifier)
        } else {
            Err(InvalidKey::Hash)
        }
    }
}

impl TreeHead {
    /// The text that is signed.
    pub fn to_note(&self) -> String {
        format!("{TREE}\n{}\n{}\n", self.size, self.hash)
    }

    /// Reads a text whose signature was checked.
    pub fn parse(text: &str) -> Result<Self, InvalidNote> {
        let mut lines = text.lines();
        let head = (|| {
            lines.next().filter(|line| *line == TREE)?;
            let size = lines.next()?;
            let head = Self {
                size: size.parse().ok()?,
                hash: lines.next()?.parse().ok()?,
            };
            (head.size.to_string() == size).then_some(head)
        })();
        head.ok_or(InvalidNote::Head)
    }
}

#[cfg(test)]
mod tests;
