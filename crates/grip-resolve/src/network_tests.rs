//! Members of a real network on the loopback interface, honest and hostile.

mod found;
mod hostile;
mod members;
