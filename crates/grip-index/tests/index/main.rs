//! The index as a whole, over sources that do what a test wants.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod conflicts;
mod faults;
mod feed;
mod follower;
mod github;
mod graphql;
mod hostile;
mod instances;
mod listing;
mod organisations;
mod repositories;
mod rounding;
mod support;
