//! Events that came before their data: the node fetches it from the hosts that announcements
//! name, politely, and serves each event the moment its own objects are there.

mod burst;
mod egress;
mod hourly;
mod instances;
mod limits;
mod logs;
mod misbehaviour;
mod old_hosts;
mod operator;
mod pages;
mod peers;
mod restart;
pub(crate) mod scene;
mod stories;
