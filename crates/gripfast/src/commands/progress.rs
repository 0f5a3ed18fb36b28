//! Progress of long work: a bar with the time left on a terminal, a line now and then elsewhere.

use std::{
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::when::span;

/// How often a line is printed where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// How far a piece of work is, in bytes.
pub(crate) struct Progress {
    what: &'static str,
    bar: Option<ProgressBar>,
    total: u64,
    done: u64,
    began: Instant,
    told: Instant,
}

impl Progress {
    pub(crate) fn new(what: &'static str, total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| bar(what, total));
        let now = Instant::now();
        Self {
            what,
            bar,
            total,
            done: 0,
            began: now,
            told: now,
        }
    }

    pub(crate) fn add(&mut self, bytes: u64) {
        self.done += bytes;
        if let Some(bar) = &self.bar {
            bar.set_position(self.done);
        } else if self.told.elapsed() >= EVERY {
            self.told = Instant::now();
            anstream::eprintln!("{}", self.line());
        }
    }

    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }

    fn line(&self) -> String {
        let (done, total) = (size(self.done), size(self.total));
        let rest = self.total.saturating_sub(self.done);
        let left = match self.done {
            0 => "unknown".to_owned(),
            done => span(self.began.elapsed().mul_f64(rest as f64 / done as f64)),
        };
        format!("{}: {done} of {total}, {left} left", self.what)
    }
}

fn bar(what: &'static str, total: u64) -> ProgressBar {
    let bar = ProgressBar::new(total);
    let style = "{prefix}  {bar:24} {binary_bytes}/{binary_total_bytes}  {eta} left";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style.progress_chars("▰▰▱"));
    }
    bar.set_prefix(what);
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
        let mut progress = Progress {
            what: "backup",
            bar: None,
            total: 4096,
            done: 0,
            began: Instant::now() - Duration::from_secs(10),
            told: Instant::now(),
        };
        progress.add(2048);
        assert_eq!(progress.line(), "backup: 2.0 KiB of 4.0 KiB, 10s left");
    }
}
