//! Staged faults: what the log, `/readyz` and the operator's commands say of each.
//!
//! Every row of docs/faults.md is one test below: it stages the fault and reads the words of the row
//! where the row says they are.

mod clients;
mod hosts;
mod parts;
mod starts;

use std::{any::Any, fmt};

use anyhow::{Context as _, Result, bail, ensure};
use grip_testkit::{Node, until_ok};

/// Exit codes: a mistake in the configuration, and everything else.
const USAGE: i32 = 64;
const FAILURE: i32 = 1;

/// A fault, and what is said of it.
pub(crate) struct Fault {
    name: &'static str,
    /// Where it is named, and with which words.
    seen: &'static [(View, &'static str)],
    /// Why it is not named elsewhere.
    silent: &'static [(&'static [View], &'static str)],
    /// The words of at least one view that say what to do.
    next_step: &'static str,
}

/// A place where the operator looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Log,
    Readyz,
    Status,
    Selftest,
    Explain,
}

impl View {
    const ALL: [Self; 5] = [
        Self::Log,
        Self::Readyz,
        Self::Status,
        Self::Selftest,
        Self::Explain,
    ];
}

impl Fault {
    /// What each view shows, or why it shows nothing.
    fn cells(&self) -> Result<Vec<String>> {
        let cell_of = |view: View| {
            let said = self.seen.iter().filter(|(it, _)| *it == view);
            let said = said.map(|(_, words)| cell(words));
            let silent = self.silent.iter().filter(|(of, _)| of.contains(&view));
            let all: Vec<_> = said
                .chain(silent.map(|(_, why)| format!("– {why}")))
                .collect();
            match &all[..] {
                [one] => Ok(one.clone()),
                _ => bail!("{}: {view} is described {} times", self.name, all.len()),
            }
        };
        View::ALL.into_iter().map(cell_of).collect()
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Log => "log",
            Self::Readyz => "`/readyz`",
            Self::Status => "`status`",
            Self::Selftest => "`selftest --url`",
            Self::Explain => "`explain`",
        })
    }
}

/// A table of faults and a test for each, which stages it by the function of the same name in
/// `stage`. A view that shows nothing stands behind a dash, with the reason.
macro_rules! faults {
    ($($stage:ident: $name:literal,
        $($view:ident $says:literal,)+
        $(- $($silent:ident)+: $why:expr,)*
        => $next:literal;
    )+) => {
        pub(super) const FAULTS: &[super::Fault] = &[$(super::Fault {
            name: $name,
            seen: &[$((super::View::$view, $says)),+],
            silent: &[$((&[$(super::View::$silent),+], $why)),*],
            next_step: $next,
        }),+];

        $(#[tokio::test]
        async fn $stage() -> anyhow::Result<()> {
            let mut faults = FAULTS.iter();
            let fault = faults.find(|fault| fault.name == $name);
            let fault = fault.expect("because it is a row of the table");
            stage::$stage().await?.must_show(fault).await
        })+
    };
}
use faults;

/// A node with a fault.
pub(crate) struct Staged {
    node: Node,
    /// Where the self-test knocks; the node itself if nowhere else.
    url: Option<String>,
    /// What is explained.
    subject: Option<String>,
    /// What the fault is made of: it ends with the test.
    _parts: Vec<Box<dyn Any>>,
}

impl Staged {
    fn new(node: Node) -> Self {
        Self {
            node,
            url: None,
            subject: None,
            _parts: Vec::new(),
        }
    }

    /// One that is started and ends by itself, with this exit code.
    async fn ended(mut node: Node, code: i32) -> Result<Self> {
        node.spawn()?;
        let ended = node.wait().await?;
        ensure!(ended.code() == Some(code), "{ended}: {}", node.log());
        Ok(Self::new(node))
    }

    /// One that clients reach by another URL.
    fn at(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }

    fn about(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    fn with(mut self, part: impl Any) -> Self {
        self._parts.push(Box::new(part));
        self
    }

    /// Fails unless each view comes to say its words, and one of them the next step.
    async fn must_show(&self, fault: &Fault) -> Result<()> {
        let mut said = String::new();
        for (view, words) in fault.seen {
            said += &self.until_says(*view, words).await?;
        }
        ensure!(
            said.contains(fault.next_step),
            "nothing says {:?}:\n{said}",
            fault.next_step
        );
        Ok(())
    }

    async fn until_says(&self, view: View, words: &str) -> Result<String> {
        let mut last = String::new();
        let waited = until_ok(words, async || {
            last = self.look(view).await?;
            Ok(last.contains(words).then_some(()))
        })
        .await;
        waited.with_context(|| format!("{view} does not say it:\n{last}"))?;
        Ok(last)
    }

    async fn look(&self, view: View) -> Result<String> {
        let own = self.node.http_url();
        let arguments = match view {
            View::Log => return Ok(self.node.log()),
            View::Readyz => return Ok(self.node.get("/readyz").await?.text()),
            View::Status => vec!["status"],
            View::Selftest => vec!["selftest", "--url", self.url.as_deref().unwrap_or(&own)],
            View::Explain => {
                let subject = self.subject.as_deref().context("something to explain")?;
                vec!["explain", subject]
            }
        };
        let output = self.node.command(&arguments).output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(text(&output.stdout) + &text(&output.stderr))
    }
}

/// The table for people; `UPDATE_DOCS=1` writes it.
#[test]
fn the_documented_faults_are_those_that_are_staged() -> Result<()> {
    let groups = [
        ("It does not start", starts::FAULTS),
        ("Clients cannot use it", clients::FAULTS),
        ("A part of it fails", parts::FAULTS),
        ("Git data is not fetched from another host", hosts::FAULTS),
    ];
    let count: usize = groups.iter().map(|(_, faults)| faults.len()).sum();
    ensure!(count >= 30, "{count}");
    let mut text = format!(
        "# Faults and what is said of them\n\nMade from `crates/gripfast/tests/e2e/operate/faults/`: \
         each of these {count} faults is staged against the real binary, and the words below are read \
         where the table says; behind a dash stands why a place says nothing. \
         [troubleshooting.md](troubleshooting.md) goes by symptom.\n"
    );
    for (title, faults) in groups {
        text += &format!(
            "\n## {title}\n\n| fault | {} | the next step it prints |\n{}|\n",
            View::ALL.map(|view| view.to_string()).join(" | "),
            "|---".repeat(View::ALL.len() + 2)
        );
        for fault in faults {
            let (seen, next) = (fault.cells()?.join(" | "), cell(fault.next_step));
            text += &format!("| {} | {seen} | {next} |\n", fault.name);
        }
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/faults.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, &text)?;
    }
    ensure!(
        std::fs::read_to_string(file)? == text,
        "docs/faults.md is not what is staged: UPDATE_DOCS=1 writes it"
    );
    Ok(())
}

fn cell(words: &str) -> String {
    words.replace('|', "\\|")
}
