#![doc = include_str!("../README.md")]

mod check;
mod open;
mod words;

pub use check::{CheckError, check};
pub use open::{OpenError, open, s3};
pub use words::in_words;
