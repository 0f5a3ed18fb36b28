//! Kind 30617: repository announcements.

use grip_types::{Identifier, InvalidIdentifier, Service};
use nostr::prelude::{Event, PublicKey};
use url::Url;

use crate::{RepoAddr, kinds, tags};

/// A repository announcement, read leniently: bad values are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    pub event: Event,
    pub identifier: Identifier,
    pub clone: Vec<String>,
    pub relays: Vec<String>,
    /// The `maintainers` list, well-formed keys only.
    pub maintainers: Vec<PublicKey>,
}

/// Why an event is no usable announcement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidAnnouncement {
    #[error("kind {0} is no repository announcement")]
    Kind(u16),
    #[error("an announcement needs a `d` tag")]
    NoIdentifier,
    #[error(transparent)]
    Identifier(#[from] InvalidIdentifier),
}

impl Announcement {
    pub fn parse(event: Event) -> Result<Self, InvalidAnnouncement> {
        if event.kind != kinds::ANNOUNCEMENT {
            return Err(InvalidAnnouncement::Kind(event.kind.as_u16()));
        }
        let d = tags::first_value(&event, "d").ok_or(InvalidAnnouncement::NoIdentifier)?;
        Ok(Self {
            identifier: Identifier::parse(d)?,
            clone: tags::values(&event, "clone").map(str::to_owned).collect(),
            relays: tags::values(&event, "relays").map(str::to_owned).collect(),
            maintainers: tags::values(&event, "maintainers")
                .filter_map(tags::hex32)
                .filter_map(|key| PublicKey::from_slice(&key).ok())
                .collect(),
            event,
        })
    }

    pub fn owner(&self) -> PublicKey {
        self.event.pubkey
    }

    pub fn addr(&self) -> RepoAddr {
        RepoAddr::new(self.event.pubkey, self.identifier.clone())
    }

    /// Says whether a `clone` value is this author's repository at `service` (G01-3).
    pub fn clones_from(&self, service: &Service) -> bool {
        self.clone.iter().any(|value| {
            let Ok(url) = Url::parse(value) else {
                return false;
            };
            let plain = url.query().is_none() && url.fragment().is_none();
            match service.segments_of(&url, &["http", "https"]).as_deref() {
                Some([npub, repository]) if plain => {
                    RepoAddr::from_segments(npub, repository) == Some(self.addr())
                }
                _ => false,
            }
        })
    }

    /// Says whether a `relays` value is `service` (G01-3).
    pub fn relays_through(&self, service: &Service) -> bool {
        self.relays.iter().any(|value| service.is_relay_url(value))
    }

    /// Says whether the announcement lists `service` in both `clone` and `relays` (G01-2).
    pub fn lists(&self, service: &Service) -> bool {
        self.clones_from(service) && self.relays_through(service)
    }

    pub fn name(&self) -> &str {
        tags::first_value(&self.event, "name").unwrap_or(self.identifier.as_str())
    }

    pub fn description(&self) -> &str {
        tags::first_value(&self.event, "description").unwrap_or_default()
    }

    /// Says whether the owner asks for a private repository (GRASP-08).
    pub fn is_private(&self) -> bool {
        tags::first_value(&self.event, "private") == Some("true")
    }
}
