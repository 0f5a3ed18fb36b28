//! Pushes on GitHub as a node receives them: by webhooks, by lists, from files, and through
//! crashes.

mod board;
mod crashes;
mod files;
mod lists;
pub(crate) mod scene;
mod webhooks;
