//! The module proxy with real git repositories, and with the real go command as its client.

mod answers;
mod go;
mod hostile;
mod support;
mod zips;
