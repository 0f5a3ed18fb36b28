//! Kind 5: requests to delete one's own events (NIP-09).

use nostr::prelude::{Event, EventId};

use crate::{Address, kinds, tags};

/// What a deletion request names, foreign addresses left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deletion {
    pub event: Event,
    /// Whose author must still be compared with the request's.
    pub ids: Vec<EventId>,
    /// Addresses of the request's own author; versions up to its time go.
    pub addresses: Vec<Address>,
}

impl Deletion {
    pub fn parse(event: Event) -> Option<Self> {
        if event.kind != kinds::DELETION {
            return None;
        }
        let named = |name: &'static str| {
            event
                .tags
                .iter()
                .filter(move |tag| tag.kind() == name)
                .filter_map(|tag| tag.content())
        };
        let ids = named("e")
            .filter_map(tags::hex32)
            .map(|id| EventId::from_slice(&id).expect("32 bytes"))
            .collect();
        let addresses = named("a")
            .filter_map(|value| value.parse::<Address>().ok())
            .filter(|address| address.author == event.pubkey)
            .collect();
        Some(Self {
            ids,
            addresses,
            event,
        })
    }

    /// Says whether this request covers `target`: own events only, never another deletion.
    pub fn covers(&self, target: &Event) -> bool {
        if target.pubkey != self.event.pubkey || target.kind == kinds::DELETION {
            return false;
        }
        let by_address = || {
            let address = crate::address_of(target)?;
            Some(self.addresses.contains(&address) && target.created_at <= self.event.created_at)
        };
        self.ids.contains(&target.id) || by_address().unwrap_or(false)
    }
}
