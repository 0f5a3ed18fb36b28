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

/// A duration without the parts that nobody wants to know.
pub(crate) fn span(duration: Duration) -> String {
    humantime::format_duration(rounded(duration)).to_string()
}

/// Nobody wants the seconds of a distance in days.
fn rounded(distance: Duration) -> Duration {
    let step = match distance.as_secs() {
        0..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    Duration::from_secs(distance.as_secs() / step * step)
}

/// `840ms`, `1.2s`, or a span.
pub(crate) fn took(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis}ms"),
        1000..10_000 => format!("{}.{}s", millis / 1000, millis % 1000 / 100),
        _ => span(Duration::from_millis(millis)),
    }
}
