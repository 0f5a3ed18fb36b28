//! Repositories on a real disk with the real git.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod adopt;
mod fetching;
mod keeping;
mod layout;
mod maintain;
mod pushing;
mod refs;
mod remote;
mod stores;
mod strangers;
mod support;
