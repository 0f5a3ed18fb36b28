//! Client side of the wire protocol: requests to another git server, and its responses.
//!
//! No connection is made here. The functions make the bodies of requests, [`fetch_v2`] for one
//! `POST git-upload-pack` and [`fetch_v0`] after one `GET info/refs`, and read the bodies of
//! answers from any stream. A pack goes through [`Repositories::receive_fetched`] into the store.
//!
//! Invariants:
//! - The server is a stranger: every answer is bounded in packets and bytes, and no answer, however
//!   framed, makes a reader panic or grow beyond a few packets and the refs that are wanted. Time is
//!   for the caller to bound.
//! - A pack is never held in memory. What is inside it is judged by git, in quarantine.
//!
//! [`Repositories::receive_fetched`]: crate::Repositories::receive_fetched

mod advertisement;
mod error;
mod pack;
mod packets;
mod request;

pub use crate::{receive::hang_up, upload_request::Protocol as Version};
pub use advertisement::{Advertisement, RemoteRef, digest_of, read_advertisement, read_ls_refs};
pub use error::RemoteError;
pub use pack::{MAX_ASIDE_BYTES, MAX_ASIDE_PACKETS, Pack, open_pack};
pub use request::{
    MAX_HAVES, MAX_WANTS, fetch_snapshot_v2, fetch_v0, fetch_v2, ls_refs_v2, ls_refs_v2_below,
};

#[cfg(test)]
mod tests;
