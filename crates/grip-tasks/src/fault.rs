//! Named points at which a test build can be made to die, to prove that a crash there loses
//! nothing, or to do something else first, to prove that an interleaving is harmless.
//!
//! With the feature `fault-points`, the variable `GRIPFAST_FAULT` set to `name` or `name:N` aborts
//! the process the first (or N-th) time the point `name` is reached: no destructor runs, no buffer
//! is flushed, just as with `kill -9`. Set to `name@FILE`, a thread that reaches the point waits until
//! the file is there, as on a slow disk; only for points of blocking work. Set to `name!` or `name!N`, what is
//! done at the point [`fails`]. Without the feature a point is an empty inline function.

/// Dies here if the environment says so, after what a test has asked for with [`meet`].
#[cfg(feature = "fault-points")]
pub fn point(name: &'static str) {
    let meeting = MEETINGS.lock().get(name).cloned();
    if let Some(meeting) = meeting {
        meeting();
    }

    if let Some(trigger) = trigger()
        && trigger.act != Act::Fail
        && trigger.fires(name)
    {
        trigger.act();
    }
}

/// Says whether a test wants what is done at the point `name` to fail.
#[cfg(feature = "fault-points")]
pub fn fails(name: &'static str) -> bool {
    trigger().is_some_and(|trigger| trigger.act == Act::Fail && trigger.fires(name))
}

#[cfg(feature = "fault-points")]
fn trigger() -> Option<&'static Trigger> {
    use std::sync::LazyLock;

    static TRIGGER: LazyLock<Option<Trigger>> = LazyLock::new(|| {
        let setting = std::env::var("GRIPFAST_FAULT").ok()?;
        Some(Trigger::parse(&setting))
    });
    TRIGGER.as_ref()
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

/// Nothing does: this build has no fault points.
#[cfg(not(feature = "fault-points"))]
#[inline(always)]
pub fn fails(_name: &'static str) -> bool {
    false
}

#[cfg(any(feature = "fault-points", test))]
struct Trigger {
    name: String,
    /// Hits that still pass.
    left: std::sync::atomic::AtomicU64,
    act: Act,
}

/// What happens at the point.
#[cfg(any(feature = "fault-points", test))]
#[derive(Debug, PartialEq, Eq)]
enum Act {
    Die,
    /// Until the file is there.
    Wait(std::path::PathBuf),
    Fail,
}

#[cfg(any(feature = "fault-points", test))]
impl Trigger {
    /// Reads `name`, `name:N`, `name!`, `name!N` or `name@FILE`; names themselves may hold colons.
    fn parse(setting: &str) -> Self {
        let numbered = |mark| {
            let (name, hit) = setting.rsplit_once(mark)?;
            Some((name, hit.parse::<u64>().ok()?))
        };
        let (name, hit, act) = if let Some((name, file)) = setting.split_once('@') {
            (name, 1, Act::Wait(file.into()))
        } else if let Some(name) = setting.strip_suffix('!') {
            (name, 1, Act::Fail)
        } else if let Some((name, hit)) = numbered('!') {
            (name, hit, Act::Fail)
        } else {
            let (name, hit) = numbered(':').unwrap_or((setting, 1));
            (name, hit, Act::Die)
        };
        Self {
            name: name.to_owned(),
            left: hit.saturating_sub(1).into(),
            act,
        }
    }

    /// Waits, or ends the process.
    #[cfg(feature = "fault-points")]
    #[expect(
        clippy::disallowed_methods,
        reason = "a thread that a test lets wait, in no build that is released"
    )]
    fn act(&self) {
        let Act::Wait(file) = &self.act else {
            std::process::abort();
        };
        while !file.exists() {
            std::thread::sleep(std::time::Duration::from_millis(10));
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
    use super::{Act, Trigger};

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

    #[test]
    fn a_file_is_waited_for_at_every_hit() {
        let trigger = Trigger::parse("layout@/tmp/a:1");
        assert!(trigger.fires("layout") && trigger.fires("layout"));
        assert_eq!(trigger.act, Act::Wait("/tmp/a:1".into()));
    }

    #[test]
    fn a_failure_lasts_from_its_hit_on() {
        for (setting, passing) in [("store!", 0), ("store!3", 2)] {
            let trigger = Trigger::parse(setting);
            assert_eq!(trigger.act, Act::Fail);
            let hits: Vec<bool> = (0..4).map(|_| trigger.fires("store")).collect();
            let expected: Vec<bool> = (0..4).map(|hit| hit >= passing).collect();
            assert_eq!(hits, expected);
        }
    }
}
