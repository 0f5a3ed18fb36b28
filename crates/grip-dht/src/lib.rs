#![doc = include_str!("../README.md")]

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

pub use dht::{
    Dht, LocalRecords, PublishFuture, Published, RecordValidator, RequestFuture, Response, Verdict,
};
pub use error::{DhtError, RequestError};
pub use key::{Distance, InvalidKey, RecordKey};
pub use peer::{InvalidPeerName, Peer, PeerName};
pub use status::{Counters, Reachability, Status};
