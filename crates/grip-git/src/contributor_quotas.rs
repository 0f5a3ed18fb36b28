//! Quotas of contributor repositories: what strangers may keep below `/prs/` (GRASP-06).
//!
//! Nobody announces a contributor repository, so what is in one is nobody's but those who sent it. It
//! counts as long as it is there, whether its event came or not.
//!
//! | quota | counts against |
//! |---|---|
//! | `per_address` | the network of clients that sent it |
//! | `per_key` | the key in the path, which has to sign the pull request |
//! | `per_target` | all contributors to repositories of one identifier |
//!
//! Anyone may push below another's key until the event is missed, so a network has less than a key,
//! and a key less than a target; and of a key and of a target it has a quarter of what is free, so that some
//! networks together close neither ([`crate::staging_shares`]).

use crate::staged_uploads::Bytes;

/// What one share may come to, or comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Of packs with their indexes.
    pub bytes: u64,
    pub refs: u64,
}

impl Quota {
    pub(crate) fn of(self, unit: Unit) -> u64 {
        match unit {
            Unit::Bytes => self.bytes,
            Unit::Refs => self.refs,
        }
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.bytes += more.bytes;
        self.refs += more.refs;
    }

    pub(crate) fn remove(&mut self, less: Self) {
        self.bytes = self.bytes.saturating_sub(less.bytes);
        self.refs = self.refs.saturating_sub(less.refs);
    }
}

/// Bytes and refs that may be kept; each is a share, not a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContributorQuotas {
    /// For uploads from one network of clients; default 256 MiB and 64 refs.
    pub per_address: Quota,
    /// For uploads below one key; default 1280 MiB and 320 refs, of which one network has a fifth where
    /// nobody else has any.
    pub per_key: Quota,
    /// For uploads to all contributor repositories of one identifier; default 4 GiB and 2048 refs.
    pub per_target: Quota,
}

impl ContributorQuotas {
    pub(crate) const DEFAULT: Self = Self {
        per_address: Quota {
            bytes: 256 << 20,
            refs: 64,
        },
        per_key: Quota {
            bytes: 1280 << 20,
            refs: 320,
        },
        per_target: Quota {
            bytes: 4 << 30,
            refs: 2048,
        },
    };
}

impl Default for ContributorQuotas {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Refs,
}

impl Unit {
    /// A number of it in words.
    pub fn amount(self, n: u64) -> String {
        match self {
            Self::Bytes => Bytes(n).to_string(),
            Self::Refs => format!("{n} refs"),
        }
    }
}
