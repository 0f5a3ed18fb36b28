//! Repositories on a real disk with the real git.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod adopt;
mod collect;
mod contents;
mod free_space;
mod hostile_remotes;
mod layout;
mod moves;
mod prune;
mod receive;
mod refs;
mod remote;
mod repack;
mod replica;
mod staged;
mod stores;
mod support;
mod trees;
mod upload_pack;
