//! A bounded set of changed items, taken by one follower.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Items that are kept until the follower takes them; beyond it they are not kept apart.
const MAX_CHANGED: usize = 10_000;

/// Items that have changed since they were last taken.
///
/// Nothing is kept before [`ChangeSet::follow`] is called.
pub struct ChangeSet<T> {
    state: Mutex<State<T>>,
    wake: Notify,
}

/// What has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed<T> {
    /// Each is there once.
    These(Vec<T>),
    /// More than are kept: any may have changed.
    TooMany,
}

struct State<T> {
    is_followed: bool,
    items: BTreeSet<T>,
    too_many: bool,
}

impl<T> Default for ChangeSet<T> {
    fn default() -> Self {
        let state = State {
            is_followed: false,
            items: BTreeSet::new(),
            too_many: false,
        };
        Self {
            state: Mutex::new(state),
            wake: Notify::new(),
        }
    }
}

impl<T: Ord + Clone> ChangeSet<T> {
    /// Keeps changes from now on; earlier ones are forgotten.
    pub fn follow(&self) {
        *self.state.lock() = State {
            is_followed: true,
            items: BTreeSet::new(),
            too_many: false,
        };
    }

    pub fn add(&self, item: &T) {
        let mut state = self.state.lock();
        if !state.is_followed || state.too_many {
            return;
        }
        state.items.insert(item.clone());
        if state.items.len() > MAX_CHANGED {
            state.items.clear();
            state.too_many = true;
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Waits until something has changed, and takes it. Cancel safe.
    pub async fn next(&self) -> Changed<T> {
        loop {
            let woken = self.wake.notified();
            if let Some(changed) = self.take() {
                return changed;
            }
            woken.await;
        }
    }

    /// What has changed by now, if anything.
    pub fn take(&self) -> Option<Changed<T>> {
        let mut state = self.state.lock();
        let items = std::mem::take(&mut state.items);
        if std::mem::take(&mut state.too_many) {
            return Some(Changed::TooMany);
        }
        (!items.is_empty()).then(|| Changed::These(items.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_that_changes_often_is_taken_once() {
        let changes = ChangeSet::default();
        changes.follow();
        for item in ["a", "b", "a"] {
            changes.add(&item);
        }
        assert_eq!(changes.take(), Some(Changed::These(vec!["a", "b"])));
        assert_eq!(changes.take(), None);
    }

    #[test]
    fn beyond_the_bound_items_are_not_kept_apart() {
        let changes = ChangeSet::default();
        changes.follow();
        (0..=MAX_CHANGED).for_each(|n| changes.add(&n));
        assert!(changes.state.lock().items.is_empty());
        assert_eq!(changes.take(), Some(Changed::TooMany));
        assert_eq!(changes.take(), None);
    }

    #[test]
    fn nothing_is_kept_before_it_is_followed() {
        let changes = ChangeSet::default();
        changes.add(&1);
        assert_eq!(changes.take(), None);
        changes.follow();
        assert_eq!(changes.take(), None);
    }
}
