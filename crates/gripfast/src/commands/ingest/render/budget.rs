//! Budgets of the GitHub API, and how long they last.

use grip_ingest::Forecast;

use crate::commands::{
    table::{Table, gauge},
    when::Now,
};

/// Cells of the picture.
const CELLS: u32 = 10;

fn name(budget: &Forecast) -> String {
    match budget.token {
        Some(place) => format!("token {}", place + 1),
        None => "no token".to_owned(),
    }
}

fn used(budget: &Forecast) -> String {
    match (budget.limit, budget.remaining) {
        (Some(limit), Some(left)) => gauge(limit.saturating_sub(left), limit, CELLS),
        _ => "not limited".to_owned(),
    }
}

fn forecast(budget: &Forecast, now: Now) -> String {
    let reset = budget.reset_at.map(|at| now.millis(at));
    let reset = reset.unwrap_or_else(|| "?".to_owned());
    match (budget.set_aside_until, budget.remaining, budget.ends_at) {
        (Some(until), ..) => format!("refused; retried {}", now.millis(until)),
        (None, None, _) => "–".to_owned(),
        (None, Some(0), _) => format!("used up; resets {reset}"),
        (None, _, Some(end)) => format!("ends {}; resets {reset}", now.millis(end)),
        (None, _, None) => format!("lasts; resets {reset}"),
    }
}

pub(super) fn table(budgets: &[Forecast], now: Now) -> Option<String> {
    budgets.first()?;
    let mut table = Table::new(["token", "for", "used", "an hour", "forecast"], 4);
    for budget in budgets {
        let rate = budget.per_hour.map(|rate| format!("{rate:.0}"));
        table.row([
            &name(budget),
            &budget.resource,
            &used(budget),
            &rate.unwrap_or_else(|| "–".to_owned()),
            &forecast(budget, now),
        ]);
    }
    Some(table.render())
}
