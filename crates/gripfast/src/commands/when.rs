//! Moments by their distance from now.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The moment that distances are counted from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now(SystemTime);

impl Now {
    pub(crate) fn new() -> Self {
        Self(SystemTime::now())
    }

    #[cfg(test)]
    pub(crate) fn at(seconds: u64) -> Self {
        Self(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    pub(crate) fn seconds(self, seconds: u64) -> String {
        self.distance(UNIX_EPOCH + Duration::from_secs(seconds))
    }

    pub(crate) fn millis(self, millis: i64) -> String {
        self.distance(UNIX_EPOCH + Duration::from_millis(millis.try_into().unwrap_or(0)))
    }

    /// "in 29m 12s" or "3m ago".
    fn distance(self, time: SystemTime) -> String {
        match time.duration_since(self.0) {
            Ok(ahead) if ahead.as_secs() == 0 => "now".to_owned(),
            Ok(ahead) => format!("in {}", span(ahead)),
            Err(error) if error.duration().as_secs() == 0 => "now".to_owned(),
            Err(error) => format!("{} ago", span(error.duration())),
        }
    }
}

/// A duration in its two largest units, such as `1d 2h`: nobody wants the seconds of days.
pub(crate) fn span(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let units = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let first = units.iter().position(|(number, _)| *number > 0);
    let Some(first) = first else {
        return "0s".to_owned();
    };
    let shown = units.iter().skip(first).take(2);
    let shown = shown.filter(|(number, _)| *number > 0);
    let shown: Vec<_> = shown
        .map(|(number, unit)| format!("{number}{unit}"))
        .collect();
    shown.join(" ")
}

/// `840ms`, `1.2s`, or a span.
pub(crate) fn took(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis}ms"),
        1000..10_000 => format!("{}.{}s", millis / 1000, millis % 1000 / 100),
        _ => span(Duration::from_millis(millis)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_has_two_units_at_most() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3_599, "59m 59s"),
            (3_605, "1h"),
            (86_400 + 7_200 + 60, "1d 2h"),
            (86_400 + 60, "1d"),
            (400 * 86_400, "400d"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), text);
        }
    }
}
