//! Whole calls to a GitHub of this machine.

mod budgets;
mod hostile;
mod reading;
mod secrets;
mod support;
mod table;
mod tokens;
