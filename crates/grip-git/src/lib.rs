//! Bare repositories, pkt-line, refs and packs; the only crate that starts processes.
