//! Parsing of a file ahead of its storage, on a thread of its own.

use std::fs::File;

use tokio::sync::mpsc::Sender;

use super::lines::{Line, Lines, ReadError};
use crate::{
    accept::Batch,
    extract::{self, Event, Malformed},
};

/// Lines that are kept at a time, and their bytes. A longer line is kept alone.
const AT_ONCE: usize = 2_000;
const AT_ONCE_BYTES: usize = 4 << 20;
/// Steps that are read ahead.
pub(super) const AHEAD: usize = 2;

/// Some lines, understood.
#[derive(Debug, Default)]
pub(super) struct Step {
    pub(super) batch: Batch,
    /// Lines of the file up to the end of this step.
    pub(super) lines: u64,
    /// Bytes of the file that were used up to then.
    pub(super) used: u64,
    /// Events in this step, and those that could not be read.
    pub(super) events: u64,
    pub(super) rejected: u64,
    /// The moments of the earliest and the latest of them.
    pub(super) span: Option<(i64, i64)>,
    bytes: usize,
}

/// Reads the lines after the first `skip`, until the end or until nobody wants more. Ends with
/// the reason why there are no more, if it is not the end of the file.
pub(super) fn read(file: File, skip: u64, steps: &Sender<Step>) -> Result<(), ReadError> {
    let mut lines = Lines::open(file).map_err(ReadError::Io)?;
    let mut line = Vec::new();
    let mut at = 0;
    let mut step = Step::default();
    let ended = loop {
        let kind = match lines.next(&mut line) {
            Ok(Some(kind)) => kind,
            Ok(None) => break Ok(()),
            Err(why) => break Err(why),
        };
        // A line that was cut off is read again when the file is whole.
        at += u64::from(kind != Line::Cut);
        if at <= skip && kind != Line::Cut {
            continue;
        }
        step.take(&kind, &line);
        if step.is_full() {
            let full = std::mem::take(&mut step);
            if !full.send(at, lines.used(), steps) {
                return Ok(());
            }
        }
    };
    step.send(at, lines.used(), steps);
    ended
}

impl Step {
    fn take(&mut self, kind: &Line, line: &[u8]) {
        self.bytes += line.len();
        match kind {
            Line::Whole if line.trim_ascii().is_empty() => {}
            Line::Whole => match extract::event(line) {
                Ok(event) => self.add(event),
                Err(why) => self.reject(line, &why),
            },
            Line::TooLong(bytes) => {
                let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
                self.reject(line, &Malformed::TooBig { bytes });
            }
            Line::Cut => {
                let why = "the file ends in the middle of it".to_owned();
                self.reject(line, &Malformed::NotJson(why));
            }
        }
    }

    fn add(&mut self, event: Event) {
        let at = match &event {
            Event::Push(push) => push.at_ms,
            Event::Tag(tag) => tag.at_ms,
            Event::Other { at_ms, .. } => *at_ms,
        };
        self.events += 1;
        self.span = at.map(|at| join(self.span, (at, at))).or(self.span);
        self.batch.add(event);
    }

    fn reject(&mut self, line: &[u8], why: &Malformed) {
        self.rejected += 1;
        self.batch.reject(line, why);
    }

    fn is_full(&self) -> bool {
        let lines = self.events + self.rejected;
        lines >= AT_ONCE as u64 || self.bytes >= AT_ONCE_BYTES
    }

    /// False if nobody wants it.
    fn send(mut self, lines: u64, used: u64, steps: &Sender<Self>) -> bool {
        self.lines = lines;
        self.used = used;
        steps.blocking_send(self).is_ok()
    }
}

/// The time from the earlier beginning to the later end.
pub(super) fn join(one: Option<(i64, i64)>, other: (i64, i64)) -> (i64, i64) {
    let (from, to) = one.unwrap_or(other);
    (from.min(other.0), to.max(other.1))
}
