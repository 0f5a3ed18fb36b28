//! Named points at which a test build can be made to die, to prove that a crash there loses
//! nothing, or to do something else first, to prove that an interleaving is harmless.
//!
//! With the feature `fault-points`, the variable `GRIPFAST_FAULT` set to `name` or `name:N` aborts
//! the process the first (or N-th) time the point `name` is reached: no destructor runs, no buffer
//! is flushed, just as with `kill -9`. Without the feature a point is an empty inline function.

/// Dies here if the environment says so, after what a test has asked for with [`meet`].
#[cfg(feature = "fault-points")]
pub fn point(name: &'static str) {
    use std::sync::LazyLock;

    let meeting = MEETINGS.lock().get(name).cloned();
    if let Some(meeting) = meeting {
        meeting();
    }

    static TRIGGER: LazyLock<Option<Trigger>> = LazyLock::new(|| {
        let setting = std::env::var("GRIPFAST_FAULT").ok()?;
        Some(Trigger::parse(&setting))
    });
    if TRIGGER.as_ref().is_some_and(|trigger| trigger.fires(name)) {
        std::process::abort();
    }
}

#[cfg(feature = "fault-points")]
type Meeting = std::sync::Arc<dyn Fn() + Send + Sync>;

#[cfg(feature = "fault-points")]
static MEETINGS: parking_lot::Mutex<std::collections::BTreeMap<&'static str, Meeting>> =
    parking_lot::Mutex::new(std::collections::BTreeMap::new());

/// Has every thread that reaches the point `name` call `meeting` there, in this process, from now on.
#[cfg(feature = "fault-points")]
pub fn meet(name: &'static str, meeting: impl Fn() + Send + Sync + 'static) {
    MEETINGS.lock().insert(name, std::sync::Arc::new(meeting));
}

/// Does nothing: this build has no fault points.
#[cfg(not(feature = "fault-points"))]
#[inline(always)]
pub fn point(_name: &'static str) {}

#[cfg(any(feature = "fault-points", test))]
struct Trigger {
    name: String,
    /// Hits that still pass.
    left: std::sync::atomic::AtomicU64,
}

#[cfg(any(feature = "fault-points", test))]
impl Trigger {
    /// Reads `name` or `name:N`; names themselves may hold colons.
    fn parse(setting: &str) -> Self {
        let (name, hit) = match setting.rsplit_once(':') {
            Some((name, hit)) => match hit.parse::<u64>() {
                Ok(hit) => (name, hit),
                Err(_) => (setting, 1),
            },
            None => (setting, 1),
        };
        Self {
            name: name.to_owned(),
            left: hit.saturating_sub(1).into(),
        }
    }

    fn fires(&self, name: &str) -> bool {
        use std::sync::atomic::Ordering::Relaxed;

        self.name == name
            && self
                .left
                .fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1))
                .is_err()
    }
}

#[cfg(test)]
mod tests {
    use super::Trigger;

    #[test]
    fn a_bare_name_fires_at_the_first_hit_and_only_there() {
        let trigger = Trigger::parse("release: before save");
        assert!(!trigger.fires("release"));
        assert!(trigger.fires("release: before save"));
    }

    #[test]
    fn a_number_lets_the_hits_before_it_pass() {
        let trigger = Trigger::parse("refs-written:3");
        let hits: Vec<bool> = (0..4).map(|_| trigger.fires("refs-written")).collect();
        assert_eq!(hits, [false, false, true, true]);
    }
}
