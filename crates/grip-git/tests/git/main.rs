//! Repositories on a real disk with the real git.

mod adopt;
mod fetching;
mod layout;
mod maintain;
mod pushing;
mod refs;
mod support;
