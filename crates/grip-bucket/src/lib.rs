#![doc = include_str!("../README.md")]

mod check;
mod open;

pub use check::{CheckError, check};
pub use open::{OpenError, open, s3};
