//! Repositories followed on other relays (GRASP-02).

mod archive;
mod health;
mod hostile;
mod identity;
mod intake;
mod many;
mod operator;
mod other_makes;
mod peers;
mod plus;
mod replication;
mod restart;
mod roles;
pub(crate) mod scene;
