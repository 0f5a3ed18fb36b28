//! Ids of manifests: the digest of their bytes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// BLAKE3 of a manifest's bytes, written `b3:<64 hex digits>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ManifestId([u8; 32]);

/// A text that is no id of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of a manifest is `b3:` and 64 lower-case hex digits")]
pub struct InvalidManifestId;

impl ManifestId {
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    pub fn parse(text: &str) -> Result<Self, InvalidManifestId> {
        let hex = text.strip_prefix("b3:").ok_or(InvalidManifestId)?;
        if hex.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(InvalidManifestId);
        }
        let hash = blake3::Hash::from_hex(hex).map_err(|_| InvalidManifestId)?;
        Ok(Self(*hash.as_bytes()))
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digits alone.
    pub fn to_hex(&self) -> String {
        blake3::Hash::from(self.0).to_hex().to_string()
    }
}

impl FromStr for ManifestId {
    type Err = InvalidManifestId;

    fn from_str(text: &str) -> Result<Self, InvalidManifestId> {
        Self::parse(text)
    }
}

impl fmt::Display for ManifestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b3:{}", self.to_hex())
    }
}

impl fmt::Debug for ManifestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManifestId({self})")
    }
}

impl Serialize for ManifestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ManifestId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}
