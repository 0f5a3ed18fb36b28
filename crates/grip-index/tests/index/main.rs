//! The index as a whole, over sources that do what a test wants.

mod conflicts;
mod faults;
mod feed;
mod follower;
mod github;
mod hostile;
mod instances;
mod listing;
mod repositories;
mod support;
