//! The edge over real sockets, with real git and temporary data.

mod admin;
mod drain;
mod git;
mod http;
mod limits;
mod pages;
mod support;
mod sync;
mod websocket;
