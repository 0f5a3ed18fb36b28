//! How the node behaves as a service: under load, while it is told to reload or to stop, when it
//! is asked for more than it takes on, and when it must leave nothing behind.

mod admission;
mod amnesia;
mod client;
mod reload;
mod stop;
mod tasks;
