#![doc = include_str!("../README.md")]

mod cases;
mod fixture;
mod target;

use std::{future::Future, pin::Pin, time::Duration};

use anyhow::{Context as _, Result};

pub use cases::all;
pub use target::{Control, Target};

/// Longest a single case may run.
const CASE_DEADLINE: Duration = Duration::from_secs(90);

/// What a case does to the server it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Only its URL.
    Url,
    /// Restarts it, or runs it with other settings.
    Control,
    /// GRASP-06, which is off in many.
    Contributors,
}

type Running<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// One requirement and how to see that it is met.
#[derive(Clone, Copy)]
pub struct Case {
    /// The requirement, such as `G01-15a`.
    pub id: &'static str,
    /// What a server does that meets it.
    pub title: &'static str,
    pub needs: Needs,
    run: for<'a> fn(&'a Target) -> Running<'a>,
}

/// How a case ended.
#[derive(Debug)]
pub enum Outcome {
    Passed,
    Failed(anyhow::Error),
    /// The case needs more than this server has, or than its URL.
    LeftOut,
}

impl Case {
    /// A name for a test runner: `g01_15a_held_announcements_…`.
    pub fn name(&self) -> String {
        let word = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '_'
            }
        };
        let title: String = self.title.chars().map(word).collect();
        let id: String = self.id.chars().map(word).collect();
        let words: Vec<&str> = title.split('_').filter(|w| !w.is_empty()).collect();
        format!("{id}_{}", words.join("_"))
    }

    pub async fn run(&self, target: &Target) -> Outcome {
        if self.needs == Needs::Control && target.control.is_none() {
            return Outcome::LeftOut;
        }
        if self.needs == Needs::Contributors {
            match target.serves_contributors().await {
                Ok(true) => {}
                Ok(false) => return Outcome::LeftOut,
                Err(error) => return Outcome::Failed(error),
            }
        }
        let running = tokio::time::timeout(CASE_DEADLINE, (self.run)(target));
        match running
            .await
            .context("the case took too long")
            .and_then(|ended| ended)
        {
            Ok(()) => Outcome::Passed,
            Err(error) => Outcome::Failed(error),
        }
    }
}

/// Runs every case against one server and prints a table; true if none failed.
pub async fn run_and_print(target: &Target) -> bool {
    let (mut passed, mut failed, mut left_out) = (0, 0, 0);
    println!("{:<9} {:<8} requirement", "id", "result");
    for case in all() {
        let result = match case.run(target).await {
            Outcome::Passed => {
                passed += 1;
                "ok".to_owned()
            }
            Outcome::LeftOut => {
                left_out += 1;
                "left out".to_owned()
            }
            Outcome::Failed(error) => {
                failed += 1;
                println!(
                    "{:<9} {:<8} {}\n          {error:#}",
                    case.id, "FAILED", case.title
                );
                continue;
            }
        };
        println!("{:<9} {result:<8} {}", case.id, case.title);
    }
    println!("\n{passed} passed, {failed} failed, {left_out} skipped");
    println!(
        "(skipped: needs to restart the server or to change its settings, or a GRASP that it lacks)"
    );
    failed == 0
}
