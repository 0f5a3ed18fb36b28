//! The report of a self-test: checks with their outcome, and what to do about failures.

use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Color, Style};
use serde::Serialize;

use crate::commands::{
    table::{self, DIM, plain},
    when::took,
};

const GREEN: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Green)));
const RED: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Red)));

/// What came of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Passed,
    Failed,
    /// It could not be tried.
    Skipped,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    outcome: Outcome,
    /// What was found.
    detail: String,
    next_step: Option<String>,
    took_ms: u64,
}

/// A check that failed, and what its reader can do.
#[derive(Debug)]
pub(super) struct Failure {
    detail: String,
    next_step: String,
}

impl Failure {
    pub(super) fn new(detail: impl Into<String>, next_step: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
            next_step: next_step.into(),
        }
    }
}

pub(super) type Checked = Result<String, Failure>;

/// All checks so far; each is printed as it ends.
#[derive(Debug)]
pub(super) struct Report {
    json: bool,
    checks: Vec<Check>,
}

impl Report {
    pub(super) fn new(json: bool) -> Self {
        Self {
            json,
            checks: Vec::new(),
        }
    }

    /// Runs a check and notes what came of it; false if it failed.
    pub(super) async fn check(
        &mut self,
        name: &'static str,
        check: impl Future<Output = Checked>,
    ) -> bool {
        let began = Instant::now();
        let checked = check.await;
        let took = began.elapsed();
        match checked {
            Ok(detail) => self.note(name, Outcome::Passed, detail, None, took),
            Err(failure) => {
                let next_step = Some(failure.next_step);
                self.note(name, Outcome::Failed, failure.detail, next_step, took);
                return false;
            }
        }
        true
    }

    pub(super) fn pass(&mut self, name: &'static str, detail: &str) {
        self.note(
            name,
            Outcome::Passed,
            detail.to_owned(),
            None,
            Duration::ZERO,
        );
    }

    pub(super) fn fail(&mut self, name: &'static str, failure: &Failure) {
        let (detail, step) = (failure.detail.clone(), failure.next_step.clone());
        self.note(name, Outcome::Failed, detail, Some(step), Duration::ZERO);
    }

    /// Notes a check that was not tried.
    pub(super) fn skip(&mut self, name: &'static str, why: &str) {
        self.note(name, Outcome::Skipped, why.to_owned(), None, Duration::ZERO);
    }

    fn note(
        &mut self,
        name: &'static str,
        outcome: Outcome,
        detail: String,
        next_step: Option<String>,
        took: Duration,
    ) {
        let check = Check {
            name,
            outcome,
            detail: plain(&detail),
            next_step: next_step.map(|step| plain(&step)),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        };
        if !self.json {
            table::print(&line(&check));
        }
        self.checks.push(check);
    }

    pub(super) fn failed(&self) -> usize {
        let failed = self
            .checks
            .iter()
            .filter(|check| check.outcome == Outcome::Failed);
        failed.count()
    }

    /// Prints what is still to be printed.
    pub(super) fn print_end(&self) {
        if self.json {
            let report = serde_json::json!({
                "passed": self.failed() == 0,
                "checks": self.checks,
            });
            anstream::println!("{report:#}");
        }
    }
}

fn line(check: &Check) -> String {
    let (style, word) = match check.outcome {
        Outcome::Passed => (GREEN, "ok"),
        Outcome::Failed => (RED, "failed"),
        Outcome::Skipped => (DIM, "skipped"),
    };
    let took = match check.outcome {
        Outcome::Skipped => String::new(),
        _ => format!(" {DIM}({}){DIM:#}", took(check.took_ms)),
    };
    let mut line = format!(
        "{style}{word:<8}{style:#} {:<10} {}{took}\n",
        check.name, check.detail
    );
    if let Some(step) = &check.next_step {
        line.push_str(&format!("{:20}{step}\n", ""));
    }
    line
}
