//! Repositories on a real disk with the real git.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod adopt;
mod contents;
mod fetching;
mod keeping;
mod layout;
mod listing;
mod maintain;
mod pushing;
mod refs;
mod remote;
mod stores;
mod strangers;
mod support;
