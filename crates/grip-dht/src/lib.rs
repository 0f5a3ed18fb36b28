//! The DHT: records and requests between nodes that do not know each other.
//!
//! A record is stored under a key on the nodes whose names are nearest to it; a node that has what
//! the key names says so as a *provider*. [`Dht`] is the whole interface: the peers near a key, one
//! request to one peer, and the publication of records.
//!
//! Invariants:
//! - This crate knows bytes, keys and names of peers; their meaning is up to the
//!   [`RecordValidator`] and the [`LocalRecords`] of the node. No byte of a stranger is stored
//!   without validation.
//! - Everything that comes from or goes to a peer has a bound: [`limits`].
//! - A request whose caller left ends at once, at the peer as well.
//! - No address is dialled because a stranger named it, unless it is one that strangers may name.

mod dht;
mod error;
#[cfg(feature = "libp2p")]
pub mod kademlia;
mod key;
pub mod limits;
mod peer;
mod status;

#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use dht::{Dht, LocalRecords, Published, RecordValidator, Response, Verdict};
pub use error::{DhtError, RequestError};
pub use key::{Distance, InvalidKey, RecordKey};
pub use peer::{InvalidPeerName, Peer, PeerName};
pub use status::{Counters, Status};
