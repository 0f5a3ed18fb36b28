//! Latest deeds of people in the repositories that are served.

use std::collections::HashMap;

use grip_nostr::{Event, EventId, Filter, PublicKey, RepoAddr, kinds, references};
use grip_store::{ReadView, StoreError};

use crate::{conversation, query};

/// Deeds that are listed.
const LISTED: usize = 12;
/// Of one author: nobody fills the list alone.
const PER_AUTHOR: usize = 3;
/// Events that are looked at for them.
const LOOKED_AT: usize = 200;
/// Longest subject kept.
const MAX_SUBJECT_CHARS: usize = 100;

/// One thing that somebody did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    pub event: EventId,
    pub author: PublicKey,
    pub deed: Deed,
    pub repo: RepoAddr,
    /// Of an issue, a patch or a pull request; empty for a push.
    pub subject: String,
    /// Unix seconds, as the author says.
    pub at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Pushed,
    OpenedIssue,
    SentPatch,
    ProposedChange,
}

impl Deed {
    fn of(event: &Event) -> Option<Self> {
        let deeds = [
            (kinds::STATE, Self::Pushed),
            (kinds::ISSUE, Self::OpenedIssue),
            (kinds::PATCH, Self::SentPatch),
            (kinds::PULL_REQUEST, Self::ProposedChange),
        ];
        let mut deeds = deeds.into_iter();
        let deed = deeds.find(|(kind, _)| *kind == event.kind)?.1;
        (deed != Self::SentPatch || conversation::is_root_patch(event)).then_some(deed)
    }
}

/// The latest deeds, newest first. `find` says which of the repositories that an event names is
/// shown here; of a state it is asked for that of its signer.
pub(crate) fn read(
    view: &ReadView<'_>,
    find: impl Fn(&RepoAddr) -> Option<RepoAddr>,
) -> Result<Vec<Activity>, StoreError> {
    let asked = [
        kinds::PATCH,
        kinds::PULL_REQUEST,
        kinds::ISSUE,
        kinds::STATE,
    ];
    let filter = Filter {
        kinds: Some(asked.iter().map(|kind| kind.as_u16()).collect()),
        ..Filter::default()
    };
    let (mut found, mut by_author) = (Vec::new(), HashMap::<PublicKey, usize>::new());
    query::each(view, filter, LOOKED_AT, |event| {
        let count = by_author.entry(event.pubkey).or_default();
        if found.len() == LISTED || *count == PER_AUTHOR {
            return;
        }
        let activity = Deed::of(&event).and_then(|deed| {
            let repo = repositories(&event, deed).iter().find_map(&find)?;
            Some(Activity {
                event: event.id,
                author: event.pubkey,
                deed,
                repo,
                subject: match deed {
                    Deed::Pushed => String::new(),
                    _ => subject(&event),
                },
                at: event.created_at.as_secs(),
            })
        });
        if let Some(activity) = activity {
            *count += 1;
            found.push(activity);
        }
    })?;
    Ok(found)
}

fn subject(event: &Event) -> String {
    let subject = conversation::subject(event);
    subject.chars().take(MAX_SUBJECT_CHARS).collect()
}

/// The repositories that an event is about.
fn repositories(event: &Event, deed: Deed) -> Vec<RepoAddr> {
    if deed == Deed::Pushed {
        let own = grip_nostr::address_of(event);
        return own
            .and_then(|address| address.repository())
            .into_iter()
            .collect();
    }
    let named = references(event).addresses;
    named
        .iter()
        .filter_map(|address| address.repository())
        .collect()
}
