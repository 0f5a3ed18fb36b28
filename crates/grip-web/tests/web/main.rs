//! The edge over real sockets, with real git and temporary data.

mod admin;
mod api_types;
mod browse;
mod conversation;
mod drain;
mod feed;
mod forge;
mod git;
mod github;
mod go;
mod http;
mod http2;
mod index;
mod limits;
mod live;
mod openapi;
mod pages;
mod private;
mod queue;
mod resolve;
mod sumdb;
mod support;
mod sync;
mod watching;
mod webhook;
mod websocket;
