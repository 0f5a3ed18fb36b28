//! Repositories followed on other relays (GRASP-02).

mod archive;
mod hostile;
mod identity;
mod operator;
mod other_makes;
mod peers;
mod plus;
mod restart;
mod scene;
