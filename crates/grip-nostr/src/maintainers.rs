//! Maintainer sets: the authors who may move a repository's refs (G01-26, G01-68 … G01-82).

mod legacy;
mod reciprocal;
mod roster;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt};

use nostr::prelude::PublicKey;

use crate::Announcement;

/// How many keys a set may hold.
const MAX_KEYS: usize = 64;

/// How keys get into a maintainer set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MaintainerRule {
    /// Everyone a maintainer lists is one (published GRASP-01).
    Legacy,
    /// The lead is followed from the owner; from there a listed key counts once its own
    /// announcement lists somebody already confirmed.
    #[default]
    Reciprocal,
}

/// The keys whose states move one owner's refs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintainerSet {
    keys: BTreeSet<PublicKey>,
    invited: BTreeSet<PublicKey>,
    lead: Option<PublicKey>,
    why_empty: Option<WhyEmpty>,
    links: Vec<Link>,
}

/// Why nobody may move the refs of a repository (G01-72, G01-73).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyEmpty {
    /// The owner has announced nothing.
    Missing,
    /// A lead that is pointed at has announced nothing.
    LeadMissing,
    /// A lead that is pointed at does not call itself one.
    Incomplete,
    /// An announcement names several leads.
    Ambiguous,
    /// Leads point at each other.
    Cycle,
    /// The owner has left.
    Inactive,
}

impl fmt::Display for WhyEmpty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "its owner has announced nothing",
            Self::LeadMissing => "the lead it names has announced nothing",
            Self::Incomplete => "the lead it names does not call itself one",
            Self::Ambiguous => "an announcement names several leads",
            Self::Cycle => "its leads point at each other",
            Self::Inactive => "its owner has left, and no lead is named",
        })
    }
}

/// How a key got into a set, or nearly: who listed it, and whether it lists back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub by: PublicKey,
    pub key: PublicKey,
    pub kind: LinkKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// `by` points to `key` as the lead.
    Leads,
    /// `by` lists `key`, who lists a confirmed key.
    Accepted,
    /// `by` lists `key`, who need not answer by the legacy rule.
    Listed,
    /// `by` lists `key`, who has announced nothing.
    Invited,
    /// `by` lists `key`, whose own announcement lists no maintainer.
    Unanswered,
    /// `by` lists `key`, whose own announcement says that they have left.
    Left,
}

impl LinkKind {
    /// Why a listed key is no maintainer; none if it is one.
    pub fn objection(self) -> Option<&'static str> {
        match self {
            Self::Leads | Self::Accepted | Self::Listed => None,
            Self::Invited => Some("has not announced the repository"),
            Self::Unanswered => Some("has not listed a maintainer in return"),
            Self::Left => Some("has left"),
        }
    }
}

impl MaintainerSet {
    pub fn contains(&self, key: &PublicKey) -> bool {
        self.keys.contains(key)
    }

    /// Says whether a maintainer lists `key`, who has not listed a maintainer yet.
    pub fn invites(&self, key: &PublicKey) -> bool {
        self.invited.contains(key)
    }

    pub fn iter(&self) -> impl Iterator<Item = &PublicKey> {
        self.keys.iter()
    }

    pub fn invited(&self) -> impl Iterator<Item = &PublicKey> {
        self.invited.iter()
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// A repository whose owner has announced nothing has no set.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub fn why_empty(&self) -> Option<WhyEmpty> {
        self.why_empty
    }

    /// The key from which the others are confirmed.
    pub fn lead(&self) -> Option<&PublicKey> {
        self.lead.as_ref()
    }

    /// How its keys got into it, in the order in which they did; then those who nearly did.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// Says whether a maintainer lists `key`, whatever that key says itself.
    pub fn names(&self, key: &PublicKey) -> bool {
        self.contains(key) || self.links.iter().any(|link| link.key == *key)
    }

    /// Why `key` is no maintainer though one lists it.
    pub fn objection(&self, key: &PublicKey) -> Option<&'static str> {
        let mut links = self.links.iter().filter(|link| link.key == *key);
        links.find_map(|link| link.kind.objection())
    }

    /// Who leads, and who got in how, one sentence each; `name` says what a key is called.
    pub fn in_words(&self, name: impl Fn(&PublicKey) -> String) -> Vec<String> {
        if let Some(why) = self.why_empty {
            return vec![format!("nobody maintains it: {why}")];
        }
        let (leads, others): (Vec<&Link>, Vec<&Link>) = self
            .links
            .iter()
            .partition(|link| link.kind == LinkKind::Leads);
        let pointing = leads.into_iter().map(|link| {
            let (by, key) = (name(&link.by), name(&link.key));
            format!("{by} points to {key} as the lead")
        });
        let lead = self.lead.iter().map(|lead| format!("{} leads", name(lead)));
        let others = others.into_iter().map(|link| {
            let (by, key) = (name(&link.by), name(&link.key));
            match link.kind.objection() {
                Some(why) => format!("{by} invited {key}, who {why}"),
                None if link.kind == LinkKind::Listed => format!("{by} lists {key}"),
                None => format!("{by} invited {key}, {key} accepted"),
            }
        });
        pointing.chain(lead).chain(others).collect()
    }

    fn empty(why: WhyEmpty) -> Self {
        Self {
            why_empty: Some(why),
            ..Self::default()
        }
    }
}

/// Computes the set of `owner`, where `newest` finds the newest announcement that an author made of
/// one identifier. Only those of the set and of whom it names are looked at.
pub fn maintainer_set<'a>(
    rule: MaintainerRule,
    owner: &PublicKey,
    newest: impl Fn(&PublicKey) -> Option<&'a Announcement>,
) -> MaintainerSet {
    match rule {
        MaintainerRule::Legacy => legacy::set(owner, newest),
        MaintainerRule::Reciprocal => reciprocal::set(owner, newest),
    }
}
