//! Admission, push authorisation, release: drives the purgatory.
//!
//! Invariant: everything about one identifier happens in that identifier's turn, so announcements,
//! states, pull requests, deletions, pushes and releases have one serial order. Nothing here
//! starts a process, speaks HTTP or decides on the writer thread by more than reading.

mod admission;
mod policy;
mod push_rules;
