//! Hostile input: each attack gets a clear error, leaves no object or ref behind, and the node
//! goes on serving others.

mod campaign;
mod http;
mod packs;
mod places;
mod processes;
mod relay;
mod scene;
mod staged;
