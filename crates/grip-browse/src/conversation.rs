//! Issues, patches and pull requests of a repository, with what was said about them.
//!
//! All of it comes from served events. A status counts if the author of the topic or a maintainer
//! gave it, an update of a pull request if the author of the request did.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use grip_nostr::{Event, EventId, Filter, Kind, PublicKey, RepoAddr, first_value, kinds, values};
use grip_store::{EventStore, EventView as _, ReadView, StoreError};
use grip_types::Oid;

use crate::query;

/// Topics of one repository that are looked at, the newest.
const MAX_TOPICS: usize = 1000;
/// Events about one topic that are shown.
const MAX_ENTRIES: usize = 500;
/// Ids asked for at once.
const IDS_AT_ONCE: usize = 200;
/// Longest title shown.
const MAX_SUBJECT_CHARS: usize = 200;

/// Longest label shown.
const MAX_LABEL_CHARS: usize = 40;

const COMMENT: u16 = 1111;
const LEGACY_REPLY: u16 = 1622;
const STATUSES: [u16; 4] = [1630, 1631, 1632, 1633];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TopicKind {
    Issue,
    Patch,
    PullRequest,
}

impl TopicKind {
    fn of(kind: Kind) -> Option<Self> {
        let kinds = [
            (kinds::ISSUE, Self::Issue),
            (kinds::PATCH, Self::Patch),
            (kinds::PULL_REQUEST, Self::PullRequest),
        ];
        let mut kinds = kinds.into_iter();
        kinds
            .find(|(number, _)| *number == kind)
            .map(|(_, topic)| topic)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Status {
    #[default]
    Open,
    /// Merged, applied or resolved.
    Done,
    Closed,
    Draft,
}

impl Status {
    fn of(kind: u16) -> Option<Self> {
        Some(match kind {
            1630 => Self::Open,
            1631 => Self::Done,
            1632 => Self::Closed,
            1633 => Self::Draft,
            _ => return None,
        })
    }

    /// Whether there is still something to do.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Draft)
    }
}

/// The repository that is spoken of.
#[derive(Clone, Debug)]
pub struct About {
    pub repo: RepoAddr,
    /// Who may settle topics; the owner is one of them.
    pub maintainers: Vec<PublicKey>,
}

/// An issue, a patch or a pull request.
#[derive(Clone, Debug)]
pub struct Topic {
    pub event: Event,
    pub kind: TopicKind,
    pub subject: String,
    pub status: Status,
    pub labels: Vec<String>,
}

/// One event about a topic.
#[derive(Clone, Debug)]
pub struct Entry {
    pub event: Event,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Comment,
    Status(Status),
    /// A pull request is at another commit from here on.
    Update(Oid),
    /// A further patch of the series or a revision of it.
    Patch,
}

/// A topic with all that was said about it, oldest first.
#[derive(Clone, Debug)]
pub struct Thread {
    pub topic: Topic,
    pub entries: Vec<Entry>,
    /// The commits that a pull request was at, oldest first.
    pub versions: Vec<(EventId, Oid)>,
    /// More was said than is shown.
    pub is_cut: bool,
}

/// How many topics are open and how many there are, of the newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub open_issues: usize,
    pub open_proposals: usize,
}

impl About {
    fn addresses(&self) -> Vec<String> {
        let keys: BTreeSet<_> = self
            .maintainers
            .iter()
            .chain([&self.repo.owner])
            .map(|key| key.to_hex())
            .collect();
        let identifier = self.repo.identifier.as_str();
        let address = |key: String| format!("{}:{key}:{identifier}", kinds::ANNOUNCEMENT.as_u16());
        keys.into_iter().map(address).collect()
    }

    fn may_settle(&self, topic: &Event, key: &PublicKey) -> bool {
        topic.pubkey == *key || self.repo.owner == *key || self.maintainers.contains(key)
    }
}

/// The topics of a repository, newest first. Blocks.
pub fn topics(store: &EventStore, about: &About) -> Result<Vec<Topic>, StoreError> {
    let view = store.read()?;
    let asked = [kinds::PATCH, kinds::PULL_REQUEST, kinds::ISSUE];
    let filter = Filter {
        kinds: Some(asked.iter().map(|kind| kind.as_u16()).collect()),
        tags: BTreeMap::from([('a', about.addresses())]),
        ..Filter::default()
    };
    let mut found = query::all(&view, filter, MAX_TOPICS)?;
    found.retain(|event| event.kind != kinds::PATCH || is_root_patch(event));
    let statuses = statuses(&view, about, &found)?;
    let topic = |event: Event| {
        let status = statuses.get(&event.id).copied().unwrap_or_default();
        Topic::new(event, status)
    };
    Ok(found.into_iter().filter_map(topic).collect())
}

/// How many topics are open.
pub fn counts(topics: &[Topic]) -> Counts {
    let open = |is_issue: bool| {
        let open = topics.iter().filter(|topic| topic.status.is_open());
        open.filter(|topic| (topic.kind == TopicKind::Issue) == is_issue)
            .count()
    };
    Counts {
        open_issues: open(true),
        open_proposals: open(false),
    }
}

/// One topic with its conversation; `None` if there is no such topic of this repository. Blocks.
pub fn thread(
    store: &EventStore,
    about: &About,
    id: &EventId,
) -> Result<Option<Thread>, StoreError> {
    let view = store.read()?;
    let Some(event) = view.get(id)? else {
        return Ok(None);
    };
    let addresses = about.addresses();
    let mut named = event.tags.iter().filter(|tag| tag.kind() == "a");
    let is_ours = named.any(|tag| {
        tag.content()
            .is_some_and(|a| addresses.iter().any(|b| a == b))
    });
    if !is_ours || TopicKind::of(event.kind).is_none() {
        return Ok(None);
    }
    let status = statuses(&view, about, std::slice::from_ref(&event))?;
    let status = status.get(id).copied().unwrap_or_default();
    let Some(topic) = Topic::new(event, status) else {
        return Ok(None);
    };
    let mut said = said(&view, id)?;
    let is_cut = said.len() > MAX_ENTRIES;
    said.truncate(MAX_ENTRIES);
    said.sort_by_key(|event| (event.created_at, event.id));
    let entries = said.into_iter().filter_map(|event| {
        let what = what(&topic, about, &event)?;
        Some(Entry { event, what })
    });
    let entries: Vec<_> = entries.collect();
    Ok(Some(Thread {
        versions: versions(&topic, &entries),
        topic,
        entries,
        is_cut,
    }))
}

/// The events that name a topic as their root or parent, newest first.
fn said(view: &ReadView<'_>, id: &EventId) -> Result<Vec<Event>, StoreError> {
    let update = kinds::PULL_REQUEST_UPDATE.as_u16();
    let of = |letter: char, mut asked: Vec<u16>| {
        asked.sort_unstable();
        Filter {
            kinds: Some(asked),
            tags: BTreeMap::from([(letter, vec![id.to_hex()])]),
            ..Filter::default()
        }
    };
    let mut lower = vec![LEGACY_REPLY, kinds::PATCH.as_u16(), update, 1];
    lower.extend(STATUSES);
    let mut found = query::all(view, of('E', vec![COMMENT, update]), MAX_ENTRIES + 1)?;
    found.extend(query::all(view, of('e', lower), MAX_ENTRIES + 1)?);
    found.sort_by_key(|event| std::cmp::Reverse((event.created_at, event.id)));
    found.dedup_by_key(|event| event.id);
    Ok(found)
}

fn what(topic: &Topic, about: &About, event: &Event) -> Option<What> {
    match event.kind.as_u16() {
        COMMENT | LEGACY_REPLY | 1 => Some(What::Comment),
        kind if kind == kinds::PATCH.as_u16() => Some(What::Patch),
        kind if kind == kinds::PULL_REQUEST_UPDATE.as_u16() => {
            let is_authors = event.pubkey == topic.event.pubkey;
            let tip = first_value(event, "c")?.parse().ok()?;
            is_authors.then_some(What::Update(tip))
        }
        kind => {
            let status = Status::of(kind)?;
            let counts = about.may_settle(&topic.event, &event.pubkey);
            counts.then_some(What::Status(status))
        }
    }
}

fn versions(topic: &Topic, entries: &[Entry]) -> Vec<(EventId, Oid)> {
    let first = first_value(&topic.event, "c").and_then(|oid| oid.parse().ok());
    let first = first
        .filter(|_| topic.kind == TopicKind::PullRequest)
        .map(|tip| (topic.event.id, tip));
    let later = entries.iter().filter_map(|entry| match entry.what {
        What::Update(tip) => Some((entry.event.id, tip)),
        _ => None,
    });
    first.into_iter().chain(later).collect()
}

/// The status of each topic that has one: the latest by its author or a maintainer.
fn statuses(
    view: &ReadView<'_>,
    about: &About,
    topics: &[Event],
) -> Result<HashMap<EventId, Status>, StoreError> {
    let by_hex: HashMap<String, &Event> = topics
        .iter()
        .map(|event| (event.id.to_hex(), event))
        .collect();
    let mut ids: Vec<&String> = by_hex.keys().collect();
    ids.sort_unstable();
    let mut found = HashMap::new();
    for ids in ids.chunks(IDS_AT_ONCE) {
        let filter = Filter {
            kinds: Some(STATUSES.to_vec()),
            tags: BTreeMap::from([('e', ids.iter().map(|id| (*id).clone()).collect())]),
            ..Filter::default()
        };
        query::each(view, filter, MAX_TOPICS * 4, |event| {
            let Some(status) = Status::of(event.kind.as_u16()) else {
                return;
            };
            let named = event.tags.iter().filter(|tag| tag.kind() == "e");
            let named = named.filter_map(|tag| by_hex.get(tag.content()?));
            for topic in named.filter(|topic| about.may_settle(topic, &event.pubkey)) {
                // Newest first, so the first that counts is the one.
                found.entry(topic.id).or_insert(status);
            }
        })?;
    }
    Ok(found)
}

impl Topic {
    fn new(event: Event, status: Status) -> Option<Self> {
        let kind = TopicKind::of(event.kind)?;
        let labels = values(&event, "t").filter(|label| !label.starts_with("root"));
        Some(Self {
            kind,
            subject: subject(&event),
            status,
            labels: labels
                .take(10)
                .map(|label| label.chars().take(MAX_LABEL_CHARS).collect())
                .collect(),
            event,
        })
    }
}

/// The first patch of a series; patches that reply to another belong to its page.
pub(crate) fn is_root_patch(event: &Event) -> bool {
    values(event, "t").any(|word| word == "root") || first_value(event, "e").is_none()
}

pub(crate) fn subject(event: &Event) -> String {
    let named = first_value(event, "subject").map(str::trim);
    let named = named.filter(|subject| !subject.is_empty());
    let first_line = || {
        let mut lines = event.content.lines();
        let subject = lines
            .clone()
            .find_map(|line| line.strip_prefix("Subject: "));
        let patch = subject.filter(|_| event.kind == kinds::PATCH);
        let line = patch.or_else(|| lines.find(|line| !line.trim().is_empty()));
        line.unwrap_or("(no subject)")
            .trim_start_matches('#')
            .trim()
    };
    let subject = named.unwrap_or_else(first_line);
    subject.chars().take(MAX_SUBJECT_CHARS).collect()
}
