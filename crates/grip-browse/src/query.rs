//! Reading of served events.

use std::ops::ControlFlow;

use grip_nostr::{Event, Filter, Timestamp};
use grip_store::{Limits, ReadView, StoreError};

/// Hands up to `max` events that match `filter` to `each`, newest first.
pub(crate) fn each(
    view: &ReadView<'_>,
    filter: Filter,
    max: usize,
    mut each: impl FnMut(Event),
) -> Result<(), StoreError> {
    let limits = Limits {
        default_limit: max,
        max_limit: max,
    };
    view.query(&[filter], limits, Timestamp::now(), &mut |stored| {
        // What is stored was parsed when it came.
        if let Ok(event) = serde_json::from_slice::<Event>(stored.json) {
            each(event);
        }
        ControlFlow::Continue(())
    })
}

/// The same as a list.
pub(crate) fn all(
    view: &ReadView<'_>,
    filter: Filter,
    max: usize,
) -> Result<Vec<Event>, StoreError> {
    let mut found = Vec::new();
    each(view, filter, max, |event| found.push(event))?;
    Ok(found)
}
