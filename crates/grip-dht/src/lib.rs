//! Records and questions between nodes that do not know each other.
//!
//! A record lies under a key on the nodes whose names are nearest to it; a node that has the
//! thing itself says so as a *provider*. [`Dht`] is the whole of it for those above: who is near
//! a key, one question to one node, and the telling of what we have.
//!
//! Invariants:
//! - Bytes, keys and names of peers are all that is known here; what they mean is said by the
//!   [`Judge`] and the [`Local`] of the node. No byte of a stranger is stored unjudged.
//! - Everything that comes from or goes to a peer has a bound: [`limits`].
//! - A question that nobody waits for any more ends at once, at the peer as well.
//! - No address is dialled because a stranger named it, unless it is one that strangers may name.

mod base58;
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

pub use dht::{Dht, Judge, Local, Published, Reply, Verdict};
pub use error::{AskError, DhtError};
pub use key::{Distance, InvalidKey, RecordKey};
pub use peer::{InvalidPeerName, Peer, PeerName};
pub use status::{Counters, Status};
