//! Whole calls to a GitHub of this machine.

mod budgets;
mod events;
mod hostile;
mod joint;
mod reading;
mod secrets;
mod support;
mod table;
mod tokens;
