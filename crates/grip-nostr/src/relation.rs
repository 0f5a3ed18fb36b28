//! Relations of events: the events and addresses one speaks of (G01-7, G01-8).

use std::{collections::HashSet, fmt, hash::Hash, str::FromStr};

use grip_types::{Identifier, RepoAddr};
use nostr::prelude::{Event, EventId, Kind, PublicKey};

use crate::{
    kinds::{self, Class},
    tags,
};

/// `kind:pubkey:d`: the name of a replaceable or addressable event across its versions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    pub kind: Kind,
    pub author: PublicKey,
    pub d: String,
}

impl Address {
    /// The announcement of a repository.
    pub fn of_announcement(addr: &RepoAddr) -> Self {
        Self {
            kind: kinds::ANNOUNCEMENT,
            author: addr.owner,
            d: addr.identifier.as_str().to_owned(),
        }
    }

    /// The state that the owner of a repository signs for it.
    pub fn of_state(addr: &RepoAddr) -> Self {
        Self {
            kind: kinds::STATE,
            ..Self::of_announcement(addr)
        }
    }

    /// The repository that an announcement or state address speaks of.
    pub fn repository(&self) -> Option<RepoAddr> {
        let about_a_repository = [kinds::ANNOUNCEMENT, kinds::STATE].contains(&self.kind);
        let identifier = Identifier::parse(&self.d).ok()?;
        about_a_repository.then(|| RepoAddr::new(self.author, identifier))
    }
}

impl FromStr for Address {
    type Err = ();

    /// Splits at the first two colons: `d` may hold more of them.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.splitn(3, ':');
        let kind = parts.next().ok_or(())?;
        let canonical = kind == "0" || !kind.starts_with(['0', '+']);
        let kind: u16 = kind.parse().map_err(|_| ())?;
        let author = parts.next().and_then(tags::hex32).ok_or(())?;
        let d = parts.next().ok_or(())?.to_owned();
        let author = PublicKey::from_slice(&author).map_err(|_| ())?;
        canonical
            .then_some(Self {
                kind: Kind::from(kind),
                author,
                d,
            })
            .ok_or(())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}:{}",
            self.kind.as_u16(),
            self.author.to_hex(),
            self.d
        )
    }
}

/// The address of an event that has one.
pub fn address_of(event: &Event) -> Option<Address> {
    let d = match kinds::class(event.kind) {
        Class::Addressable => tags::first_value(event, "d").unwrap_or_default(),
        Class::Replaceable => "",
        Class::Regular | Class::Ephemeral => return None,
    };
    Some(Address {
        kind: event.kind,
        author: event.pubkey,
        d: d.to_owned(),
    })
}

/// What an event refers to: each once, in the order of the tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// From `e`, `E` and `q`.
    pub ids: Vec<EventId>,
    /// From `a`, `A` and `q`.
    pub addresses: Vec<Address>,
}

/// Collects the references that make two events related; `p` is no relation.
pub fn references(event: &Event) -> References {
    let mut found = References::default();
    let (mut ids, mut addresses) = (HashSet::new(), HashSet::new());
    for tag in event.tags.iter() {
        let Some(value) = tag.content() else { continue };
        let (may_be_id, may_be_address) = match tag.kind() {
            "e" | "E" => (true, false),
            "a" | "A" => (false, true),
            "q" => (true, true),
            _ => continue,
        };
        if let Some(id) = tags::hex32(value).filter(|_| may_be_id) {
            let id = EventId::from_slice(&id).expect("32 bytes");
            push_new(&mut found.ids, &mut ids, id);
        } else if may_be_address && let Ok(address) = value.parse() {
            push_new(&mut found.addresses, &mut addresses, address);
        }
    }
    found
}

impl References {
    /// How many events and addresses are named.
    pub fn count(&self) -> usize {
        self.ids.len() + self.addresses.len()
    }
}

fn push_new<T: Clone + Eq + Hash>(list: &mut Vec<T>, seen: &mut HashSet<T>, value: T) {
    if seen.insert(value.clone()) {
        list.push(value);
    }
}

#[cfg(test)]
mod tests {
    use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Tag};

    use super::*;

    #[test]
    fn what_is_named_twice_is_referred_to_once() {
        let (id, other) = ("a".repeat(64), "b".repeat(64));
        let address = format!("30617:{id}:x");
        let named = [
            ["e", &id],
            ["q", &other],
            ["E", &id],
            ["a", &address],
            ["e", &other],
            ["q", &address],
            ["A", &address],
        ];
        let tags = named.map(|tag| Tag::parse(tag).unwrap());
        let event = EventBuilder::new(Kind::Custom(1111), "").tags(tags);
        let found = references(&event.finalize(&Keys::generate()).unwrap());
        let ids: Vec<String> = found.ids.iter().map(|id| id.to_hex()).collect();
        assert_eq!(ids, [id, other]);
        assert_eq!((found.addresses.len(), found.count()), (1, 3));
    }

    #[test]
    fn an_address_keeps_colons_of_its_identifier() {
        let key = "a".repeat(64);
        let address: Address = format!("30617:{key}:a:b:c").parse().unwrap();
        assert_eq!(address.d, "a:b:c");
        assert_eq!(address.to_string(), format!("30617:{key}:a:b:c"));
        assert_eq!(format!("10317:{key}:").parse::<Address>().unwrap().d, "");
    }

    #[test]
    fn malformed_addresses_are_refused() {
        let key = "a".repeat(64);
        let upper = "A".repeat(64);
        for bad in [
            String::new(),
            "30617".into(),
            format!("30617:{key}"),
            format!("030617:{key}:x"),
            format!("+30617:{key}:x"),
            format!("99999:{key}:x"),
            format!("30617:{upper}:x"),
            "30617:abc:x".into(),
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }
}
