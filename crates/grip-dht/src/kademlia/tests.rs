//! Real nodes on ports of the loopback interface.

mod hostile;
mod lan;
mod many;
mod records;
mod requests;
mod support;
