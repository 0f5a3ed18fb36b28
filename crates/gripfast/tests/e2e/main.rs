//! Stories of people, operators and attackers, told against the real binary.

mod agreement;
mod audit;
mod cluster;
mod contributors;
mod crash;
mod follow;
mod hostile;
mod import;
mod index;
mod lifecycle;
mod memory;
mod newcomers;
mod ngit;
mod operate;
mod operator;
mod pages;
mod postgres;
mod private;
mod proxies;
mod resolve;
mod service;
mod sync;
mod takeover;
mod upgrade;
mod watch;

/// The node that all of them start.
const BINARY: &str = env!("CARGO_BIN_EXE_gripfast");
/// A fault under which a command that is piped prints how far it is at every step, and not now and then.
const EVERY_LINE: &str = "progress.pause!";
