//! Kind 5: requests to delete one's own events (NIP-09), and kind 62: to vanish (NIP-62).

use grip_types::Service;
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
    /// Most targets of one request (G01-102).
    pub const MAX_TARGETS: usize = 2_048;

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

    /// Says whether this request covers `target`: own events only, never another request.
    pub fn covers(&self, target: &Event) -> bool {
        if target.pubkey != self.event.pubkey || kinds::is_request(target.kind) {
            return false;
        }
        let by_address = || {
            let address = crate::address_of(target)?;
            Some(self.addresses.contains(&address) && target.created_at <= self.event.created_at)
        };
        self.ids.contains(&target.id) || by_address().unwrap_or(false)
    }
}

/// Says whether a request to vanish is meant for the server of this name (NIP-62).
pub fn vanishes_from(event: &Event, service: &Service) -> bool {
    let relays = event.tags.iter().filter(|tag| tag.kind() == "relay");
    let mut named = relays.filter_map(|tag| tag.content());
    event.kind == kinds::VANISH
        && named.any(|name| name == "ALL_RELAYS" || service.is_relay_url(name))
}
