//! Stories of people and operators, told against the real binary.

mod lifecycle;
mod memory;
mod pages;
mod takeover;
mod upgrade;
