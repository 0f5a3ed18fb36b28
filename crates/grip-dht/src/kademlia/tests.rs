//! Real nodes on ports of the loopback interface.

mod hostile;
mod lan;
mod many;
mod questions;
mod records;
mod support;
