//! Repositories followed on other relays (GRASP-02).

mod archive;
mod hostile;
mod operator;
mod peers;
mod restart;
mod scene;
