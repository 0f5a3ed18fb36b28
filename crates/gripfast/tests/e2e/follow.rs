//! Repositories followed on other relays (GRASP-02).

mod archive;
mod budget;
mod forbidden;
mod health;
mod hostile;
mod identity;
mod intake;
mod layers;
mod lists;
mod many;
mod operator;
mod other_makes;
mod pace;
mod paging;
mod peers;
mod plus;
mod replication;
mod restart;
mod role_bounds;
mod roles;
pub(crate) mod scene;
mod scripted;
mod selection;
