//! The node as a service: under load, during a reload or a stop, beyond its limits, and where it
//! must leave nothing behind.

mod amnesia;
mod large_events;
mod limits;
mod reload;
mod stop;
mod tasks;
