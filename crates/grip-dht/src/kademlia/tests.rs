//! Real nodes on ports of the loopback interface.

mod hostile;
mod lan;
mod many;
mod peers;
mod records;
mod requests;
mod support;
