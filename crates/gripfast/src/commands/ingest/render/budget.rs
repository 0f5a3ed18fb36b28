//! What GitHub still allows, and how long that lasts.

use serde::Deserialize;

use crate::commands::{
    table::{Table, gauge},
    when::Now,
};

/// Cells of the picture.
const CELLS: u32 = 10;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Budget {
    token: Option<usize>,
    resource: String,
    limit: Option<u32>,
    remaining: Option<u32>,
    reset_at: Option<i64>,
    per_hour: Option<f64>,
    ends_at: Option<i64>,
    set_aside_until: Option<i64>,
}

impl Budget {
    fn name(&self) -> String {
        match self.token {
            Some(place) => format!("token {}", place + 1),
            None => "no token".to_owned(),
        }
    }

    fn used(&self) -> String {
        match (self.limit, self.remaining) {
            (Some(limit), Some(left)) => gauge(limit.saturating_sub(left), limit, CELLS),
            _ => "not limited".to_owned(),
        }
    }

    fn pace(&self) -> String {
        self.per_hour
            .map_or_else(|| "–".to_owned(), |pace| format!("{pace:.0}"))
    }

    /// The forecast.
    fn lasts(&self, now: Now) -> String {
        let renewed = self.reset_at.map(|at| now.millis(at));
        let renewed = renewed.unwrap_or_else(|| "?".to_owned());
        match (self.set_aside_until, self.remaining, self.ends_at) {
            (Some(until), ..) => format!("refused; tried again {}", now.millis(until)),
            (None, None, _) => "–".to_owned(),
            (None, Some(0), _) => format!("used up; renewed {renewed}"),
            (None, _, Some(end)) => format!("ends {}; renewed {renewed}", now.millis(end)),
            (None, _, None) => format!("lasts; renewed {renewed}"),
        }
    }
}

pub(super) fn table(budgets: &[Budget], now: Now) -> Option<String> {
    budgets.first()?;
    let mut table = Table::new(["who", "for", "used", "an hour", "forecast"], 4);
    for budget in budgets {
        table.row([
            budget.name(),
            budget.resource.clone(),
            budget.used(),
            budget.pace(),
            budget.lasts(now),
        ]);
    }
    Some(table.render())
}
