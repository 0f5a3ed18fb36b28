//! Nodes whose SQL state is on a Postgres server.

mod outages;
mod scene;
mod sharing;
mod stories;
