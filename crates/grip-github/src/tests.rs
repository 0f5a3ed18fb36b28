//! Whole calls to a GitHub of this machine.

mod budgets;
mod events;
mod hostile;
mod rate_limits;
mod reading;
mod secrets;
mod shared_budget;
mod support;
mod tokens;
