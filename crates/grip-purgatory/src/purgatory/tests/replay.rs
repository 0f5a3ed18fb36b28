//! Replay of the journal: whatever is done, it gives the same purgatory.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const OBJECT: &str = "0123456789012345678901234567890123456789";
const NAMES: [&str; 3] = ["one", "two", "naïve repo"];

/// Events of three authors, some with an end of their own.
static EVENTS: LazyLock<Vec<Event>> = LazyLock::new(|| {
    let authors: Vec<Keys> = (0..3).map(|_| Keys::generate()).collect();
    let end = ((NOW + MINUTE * 40).get() / 1000).to_string();
    let mut events = Vec::new();
    for (n, kind) in (0..24).zip(
        [kinds::ANNOUNCEMENT, kinds::STATE, kinds::PULL_REQUEST]
            .into_iter()
            .cycle(),
    ) {
        let mut tags = vec![["d", NAMES[n % 2]]];
        if n % 4 != 3 {
            tags.push(["refs/heads/main", OBJECT]);
        }
        if n % 5 == 0 {
            tags.push(["expiration", &end]);
        }
        let author = &authors[n / 3 % 3];
        events.push(event(author, kind, 100 + n as u64 / 6, &tags));
    }
    events
});

#[derive(Clone, Debug)]
enum Verb {
    Add(usize, usize, Origin),
    Push(usize, usize, char),
    Remove(usize, usize),
    RemoveStates(usize),
    Extend(usize, usize),
    Revive(usize, usize),
    RestartTimer(usize, usize),
    RemoveAnnouncement(usize, usize),
    RemovePlaceholder(usize, usize),
    Enqueue(usize, u16),
    BeginSync,
    RetrySync(usize),
    ResumeSync(usize),
    CompleteSync(usize),
    SyncNow(usize),
    MakeRoom(usize, usize),
    Drop(usize),
    Cleanup,
}

fn verb() -> impl Strategy<Value = Verb> {
    let event = 0..24usize;
    let name = 0..NAMES.len();
    let origin = prop_oneof![Just(Origin::Submitted), Just(Origin::Synced)];
    prop_oneof![
        6 => (event.clone(), name.clone(), origin).prop_map(|(e, n, s)| Verb::Add(e, n, s)),
        3 => (event.clone(), name.clone(), prop_oneof![Just('a'), Just('b')])
            .prop_map(|(e, n, c)| Verb::Push(e, n, c)),
        1 => (event.clone(), name.clone()).prop_map(|(e, n)| Verb::Remove(e, n)),
        1 => name.clone().prop_map(Verb::RemoveStates),
        2 => (event.clone(), name.clone()).prop_map(|(e, n)| Verb::Extend(e, n)),
        1 => (event.clone(), name.clone()).prop_map(|(e, n)| Verb::Revive(e, n)),
        1 => (event.clone(), name.clone()).prop_map(|(e, n)| Verb::RestartTimer(e, n)),
        1 => (event.clone(), name.clone()).prop_map(|(e, n)| Verb::RemoveAnnouncement(e, n)),
        1 => (event.clone(), name.clone()).prop_map(|(e, n)| Verb::RemovePlaceholder(e, n)),
        1 => event.clone().prop_map(Verb::Drop),
        1 => (name.clone(), any::<u16>()).prop_map(|(n, d)| Verb::Enqueue(n, d)),
        2 => Just(Verb::BeginSync),
        1 => name.clone().prop_map(Verb::RetrySync),
        1 => name.clone().prop_map(Verb::ResumeSync),
        1 => name.clone().prop_map(Verb::CompleteSync),
        1 => name.clone().prop_map(Verb::SyncNow),
        1 => (event, name).prop_map(|(e, n)| Verb::MakeRoom(e, n)),
        3 => Just(Verb::Cleanup),
    ]
}

fn perform(purgatory: &mut Purgatory, verb: &Verb, now: Millis) -> Vec<Change> {
    let of = |event: usize| &EVENTS[event];
    let named = |name: usize| identifier(NAMES[name]);
    let repo = |event: usize, name: usize| RepoAddr::new(of(event).pubkey, named(name));
    match *verb {
        Verb::Add(event, name, origin) => add(purgatory, of(event).clone(), name, origin, now),
        Verb::Push(event, name, commit) => purgatory
            .add_pr_placeholder(of(event).id, oid(commit), repo(event, name), None, now)
            .unwrap_or_default(),
        Verb::Remove(event, name) => {
            let id = &of(event).id;
            let mut changes = purgatory.remove_state_event(&named(name), id);
            changes.extend(purgatory.remove_pr(id));
            changes
        }
        Verb::RemoveStates(name) => remove_states(purgatory, &named(name)),
        Verb::Extend(event, name) => {
            purgatory.extend_expiry(&named(name), &[of(event).id], LIFETIME / 2, now)
        }
        Verb::Revive(event, name) => purgatory.revive(&repo(event, name), now).1,
        Verb::RestartTimer(event, name) => {
            purgatory.restart_announcement_timer(&repo(event, name), now)
        }
        Verb::RemoveAnnouncement(event, name) => purgatory.remove_announcement(&repo(event, name)),
        Verb::RemovePlaceholder(event, name) => {
            purgatory.remove_pr_placeholder_in(&of(event).id, &repo(event, name))
        }
        Verb::Enqueue(name, delay) => {
            let delay = Duration::from_millis(delay.into());
            purgatory.enqueue_sync(&named(name), delay, now)
        }
        Verb::BeginSync => {
            let _ = purgatory.begin_sync(now);
            Vec::new()
        }
        Verb::RetrySync(name) => purgatory.retry_sync(&named(name), MINUTE, now),
        Verb::ResumeSync(name) => purgatory.resume_sync(&named(name), SECOND, now),
        Verb::CompleteSync(name) => purgatory.complete_sync(&named(name), now),
        Verb::SyncNow(name) => purgatory.sync_now(&named(name), now),
        Verb::Drop(event) => purgatory.drop_event(&of(event).id, now),
        Verb::MakeRoom(event, name) => purgatory.make_room(&repo(event, name), now).changes,
        Verb::Cleanup => purgatory.cleanup(now).1,
    }
}

fn add(
    purgatory: &mut Purgatory,
    event: Event,
    name: usize,
    origin: Origin,
    now: Millis,
) -> Vec<Change> {
    let named = identifier(NAMES[name]);
    let added = if event.kind == kinds::ANNOUNCEMENT {
        purgatory.add_announcement(event, named, origin, now)
    } else if event.kind == kinds::STATE {
        purgatory.add_state(event, named, origin, now)
    } else {
        let identifiers = vec![named, identifier(NAMES[0])];
        purgatory.add_pr(event, oid('a'), identifiers, origin, now)
    };
    added.unwrap_or_default()
}

/// What a restart forgets on purpose: which attempts were under way.
fn without_attempts_under_way(mut purgatory: Purgatory) -> Purgatory {
    let queued: Vec<Identifier> = purgatory.sync.identifiers().cloned().collect();
    for identifier in queued {
        let mut entry = *purgatory.sync_entry(&identifier).unwrap();
        entry.in_progress = false;
        entry.renewed = false;
        purgatory.sync.set(&identifier, entry);
    }
    purgatory.sync.forget_running();
    purgatory
}

/// Small enough that every bound is met now and then.
const TIGHT: Bounds = Bounds {
    per_author: 4,
    per_author_bytes: 12_000,
    per_identifier: 4,
    per_identifier_bytes: 1 << 20,
    total: 12,
    total_bytes: 12_000,
    hidden: 2,
    hidden_bytes: 2_000,
    expired_ids: 3,
    lifetime: LIFETIME,
    placeholder_lifetime: PLACEHOLDER_LIFETIME,
    wanted: 4,
    wanted_bytes: 1 << 20,
    wanted_lifetime: WANTED_LIFETIME,
    wanted_interval: WANTED_INTERVAL,
    sync_delays: SyncDelays {
        submitted: SYNC_DELAY_DEFAULT,
        synced: SYNC_DELAY_IMMEDIATE,
    },
};

/// What a new purgatory is after these, each so many seconds after the one before, and until when.
fn played(steps: &[(Verb, i64)]) -> (Purgatory, Journal, Millis) {
    let (mut purgatory, mut journal, mut now) = (Purgatory::new(TIGHT), Journal::default(), NOW);
    for (verb, seconds) in steps {
        now = now + SECOND * u32::try_from(*seconds).unwrap();
        journal.apply(perform(&mut purgatory, verb, now));
    }
    (purgatory, journal, now)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_journal_replays_to_the_same_purgatory(
        steps in proptest::collection::vec((verb(), 0..400i64), 0..80),
    ) {
        let (mut purgatory, mut journal, now) = played(&steps);
        // What has ended would get a grace that the living purgatory does not give.
        journal.apply(purgatory.cleanup(now).1);

        let restored = Purgatory::restore(journal.0.values().cloned(), TIGHT, now);
        prop_assert!(restored.unreadable.is_empty());
        for wanted in purgatory.waiting().filter(|it| !it.is_held()) {
            for it in wanted.identifiers() {
                let latest = now + TIGHT.wanted_interval;
                let due = purgatory.sync_entry(it).map(|entry| entry.next_attempt);
                prop_assert!(due.is_some_and(|due| due <= latest), "wanted, and not looked for");
            }
        }
        prop_assert!(restored.changes.is_empty());
        prop_assert_eq!(restored.purgatory, without_attempts_under_way(purgatory));
    }

    #[test]
    fn everything_ends(steps in proptest::collection::vec((verb(), 0..400i64), 0..80)) {
        let (mut purgatory, mut journal, mut now) = played(&steps);
        for phase in [LIFETIME, HIDDEN_LIFETIME, WANTED_LIFETIME] {
            now = now + phase;
            journal.apply(purgatory.cleanup(now).1);
        }
        let counts = Counts { expired_ids: purgatory.count().expired_ids, ..Counts::default() };
        prop_assert_eq!(purgatory.count(), counts);
        prop_assert_eq!(journal.0.len(), counts.expired_ids);
        prop_assert_eq!(purgatory.next_deadline(), None);
        prop_assert_eq!(purgatory.oldest_age(now), None);
    }
}
