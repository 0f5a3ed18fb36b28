//! Progress of long work: a bar with the time left on a terminal, a line now and then elsewhere.

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::when::span;

/// How often a line is printed where there is no terminal; a test leaves the pauses out.
const EVERY: Duration = Duration::from_secs(10);

/// What is counted.
#[derive(Clone, Copy)]
enum Unit {
    Bytes,
    Items,
}

/// How far a piece of work is.
pub(crate) struct Progress {
    what: String,
    unit: Unit,
    bar: Option<ProgressBar>,
    total: u64,
    done: u64,
    began: Instant,
    told: Instant,
}

impl Progress {
    /// Work that is counted in bytes.
    pub(crate) fn bytes(what: impl Into<String>, total: u64) -> Self {
        Self::new(what.into(), Unit::Bytes, total)
    }

    /// Work that is counted in what it is about.
    pub(crate) fn items(what: impl Into<String>, total: u64) -> Self {
        Self::new(what.into(), Unit::Items, total)
    }

    fn new(what: String, unit: Unit, total: u64) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let now = Instant::now();
        Self {
            bar: is_terminal.then(|| bar(&what, unit, total)),
            what,
            unit,
            total,
            done: 0,
            began: now,
            told: now,
        }
    }

    pub(crate) fn add(&mut self, more: u64) {
        self.set(self.done + more, self.total);
    }

    /// So much is done, of a total that may have become another.
    pub(crate) fn set(&mut self, done: u64, total: u64) {
        (self.done, self.total) = (done, total);
        if let Some(bar) = &self.bar {
            bar.set_length(total);
            bar.set_position(done);
        } else if self.told.elapsed() >= EVERY || grip_tasks::fault::fails("progress.pause") {
            self.told = Instant::now();
            anstream::eprintln!("{}", self.line());
        }
    }

    /// What a bar says beside how far it is.
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_message(text());
        }
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self) -> String {
        let shown = |amount| match self.unit {
            Unit::Bytes => size(amount),
            Unit::Items => amount.to_string(),
        };
        let (done, total) = (shown(self.done), shown(self.total));
        let rest = self.total.saturating_sub(self.done);
        let left = match self.done {
            0 => "unknown".to_owned(),
            done => span(self.began.elapsed().mul_f64(rest as f64 / done as f64)),
        };
        format!("{}: {done} of {total}, {left} left", self.what)
    }
}

fn bar(what: &str, unit: Unit, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    let amount = match unit {
        Unit::Bytes => "{binary_bytes}/{binary_total_bytes}",
        Unit::Items => "{pos}/{len}",
    };
    let style = format!("{{prefix}}  {{bar:24}} {amount}  {{msg}}  {{eta}} left");
    if let Ok(style) = ProgressStyle::with_template(&style) {
        bar.set_style(style.progress_chars("▰▰▱"));
    }
    bar.set_prefix(what.to_owned());
    bar
}

/// Bytes in the largest unit that leaves a whole part.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut value = bytes as f64;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 if bytes == 1 => "1 byte".to_owned(),
        0 => format!("{bytes} bytes"),
        unit => format!("{value:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_unit_that_fits() {
        let shown = [0, 1, 1023, 1536, 5 << 30].map(size);
        assert_eq!(
            shown,
            ["0 bytes", "1 byte", "1023 bytes", "1.5 KiB", "5.0 GiB"]
        );
    }

    #[test]
    fn elsewhere_than_on_a_terminal_a_line_says_how_far_it_is() {
        let now = Instant::now();
        let mut progress = Progress {
            what: "backup".to_owned(),
            unit: Unit::Bytes,
            bar: None,
            total: 4096,
            done: 0,
            began: now - Duration::from_secs(10),
            told: now,
        };
        progress.add(2048);
        assert_eq!(progress.line(), "backup: 2.0 KiB of 4.0 KiB, 10s left");
        progress.unit = Unit::Items;
        progress.set(100, 300);
        assert_eq!(progress.line(), "backup: 100 of 300, 20s left");
    }
}
