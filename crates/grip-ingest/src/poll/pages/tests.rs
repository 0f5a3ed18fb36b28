use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const MINUTE_MS: i64 = 60_000;

fn row() -> SourceRow {
    SourceRow {
        source: "events".to_owned(),
        recent: "[]".to_owned(),
        ..SourceRow::default()
    }
}

/// Written by hand, because there are many. Two in three are no pushes.
fn body(id: u64) -> Bytes {
    let moment = jiff::Timestamp::from_second(id as i64).unwrap();
    let rest = match id % 3 {
        0 => format!(
            r#""type":"PushEvent","repo":{{"id":1}},"payload":{{"ref":"refs/heads/main","head":"{}"}}"#,
            "0".repeat(40)
        ),
        _ => r#""type":"WatchEvent""#.to_owned(),
    };
    format!(r#"{{"id":"{id}","created_at":"{moment}",{rest}}}"#).into()
}

/// A GitHub of numbers: each event is one more than the last.
#[derive(Default)]
struct List {
    newest: u64,
    /// Older ones are not listed any more, whatever there is room for.
    forgotten: u64,
}

impl List {
    fn page(&self, number: usize) -> (Vec<Bytes>, bool) {
        let oldest = self
            .newest
            .saturating_sub(LISTED as u64)
            .max(self.forgotten);
        let listed: Vec<_> = (oldest + 1..=self.newest).rev().collect();
        let start = (number * PER_PAGE).min(listed.len());
        let end = (start + PER_PAGE).min(listed.len());
        let events = listed[start..end].iter().map(|id| body(*id)).collect();
        (events, end < listed.len())
    }
}

/// Who follows the list.
#[derive(Default)]
struct Follower {
    row: SourceRow,
    kept: BTreeSet<u64>,
    others: i64,
    gaps: Vec<Hole>,
    now_ms: i64,
}

impl Follower {
    /// Follows a list that has so many events, and has looked once.
    fn of(newest: u64) -> (List, Self) {
        let mut list = List {
            newest,
            ..List::default()
        };
        let mut follower = Self {
            row: row(),
            ..Self::default()
        };
        follower.look(&mut list, &[], None);
        (list, follower)
    }

    fn keep(&mut self, batch: &Batch) {
        let ids = batch.pushes.keys().map(|id| id.parse::<u64>().unwrap());
        self.kept.extend(ids);
    }

    /// Looks once, while so many events come after each page; breaks off after so many pages.
    fn look(&mut self, list: &mut List, coming: &[u64], breaks_after: Option<usize>) {
        let mut pages = PollPages::new(self.row.clone());
        loop {
            if breaks_after == Some(pages.count()) {
                self.keep(&pages.unfinished());
                return;
            }
            let (events, more) = list.page(pages.count());
            list.newest += coming.get(pages.count()).copied().unwrap_or(0);
            pages.take(&events);
            if pages.has_met() || !more {
                let (batch, polled) = pages.finish(None, None, !more, self.now_ms);
                return self.note(&batch, polled);
            }
        }
    }

    fn note(&mut self, batch: &Batch, polled: Polled) {
        self.keep(batch);
        self.others += batch.others.values().sum::<i64>();
        let Polled::Changed {
            recent,
            newest,
            gap,
            ..
        } = polled
        else {
            panic!("the list was read");
        };
        self.gaps.extend(gap);
        assert!(recent.len() <= REMEMBERED);
        self.row.recent = serde_json::Value::from(recent).to_string();
        (self.row.newest_id, self.row.newest_at) =
            newest.map_or((None, None), |(id, at)| (Some(id), at));
        self.row.polled_at = Some(self.now_ms);
    }

    fn newest(&self) -> u64 {
        let id = self.row.newest_id.as_ref();
        id.map_or(0, |id| id.parse().unwrap())
    }

    /// The pushes up to the newest that was seen that are not kept, from `from` on.
    fn missed(&self, from: u64) -> Vec<u64> {
        let all = (from + 1..=self.newest()).filter(|id| id % 3 == 0);
        all.filter(|id| !self.kept.contains(id)).collect()
    }
}

fn covers(gap: &Hole, id: u64) -> bool {
    let number = |side: &Option<Seen>, none| {
        side.as_ref()
            .map_or(none, |(id, _)| id.parse::<u64>().unwrap())
    };
    number(&gap.after, 0) < id && id < number(&gap.before, u64::MAX)
}

#[test]
fn the_first_look_is_no_gap_however_full_the_list_is() {
    for there in [0, 1, 99, 100, 299, 300, 5_000] {
        let (_, follower) = Follower::of(there);
        assert_eq!(follower.gaps, [], "{there}");
        assert_eq!(follower.newest(), there);
    }
}

#[test]
fn what_comes_to_an_empty_list_is_no_gap_as_long_as_it_is_all_there() {
    for (came, gaps) in [(1, 0), (100, 0), (250, 0), (299, 0), (301, 1)] {
        let (mut list, mut follower) = Follower::of(0);
        list.newest = came;
        follower.look(&mut list, &[], None);
        assert_eq!(follower.gaps.len(), gaps, "{came}");
    }
}

#[test]
fn a_list_that_has_forgotten_what_we_know_is_no_gap_while_it_shows_all_since() {
    let (mut list, mut follower) = Follower::of(50);
    (list.newest, list.forgotten) = (120, 50);
    follower.now_ms += LISTED_FOR_MS;
    follower.look(&mut list, &[], None);
    assert_eq!(follower.gaps, []);
    (list.newest, list.forgotten) = (150, 140);
    follower.now_ms += LISTED_FOR_MS + 1;
    follower.look(&mut list, &[], None);
    assert_eq!(follower.gaps.len(), 1, "nobody can know after so long");
    let gap = &follower.gaps[0];
    assert_eq!(gap.after, Some(("120".to_owned(), Some(120_000))));
    assert_eq!(gap.before, Some(("141".to_owned(), Some(141_000))));
}

#[test]
fn a_look_that_breaks_off_hides_no_hole() {
    let (mut list, mut follower) = Follower::of(10);
    list.newest += 200;
    follower.look(&mut list, &[], Some(1));
    assert!(follower.kept.contains(&210) && !follower.kept.contains(&12));
    list.newest += 250;
    follower.look(&mut list, &[], None);
    assert_eq!(follower.gaps.len(), 1);
    assert!(covers(&follower.gaps[0], 12));
    follower.look(&mut list, &[], Some(0));
    follower.look(&mut list, &[], None);
    assert_eq!(follower.gaps.len(), 1);
}

#[test]
fn an_older_list_moves_nothing_back() {
    let (mut list, mut follower) = Follower::of(30);
    let mut older = List {
        newest: 20,
        ..List::default()
    };
    follower.look(&mut older, &[], None);
    assert_eq!((follower.newest(), follower.gaps.len()), (30, 0));
    list.newest = 31;
    follower.look(&mut list, &[], None);
    assert_eq!((follower.newest(), follower.gaps.len()), (31, 0));
}

#[test]
fn pages_with_hidden_events_count_as_full() {
    let mut row = row();
    (row.polled_at, row.recent, row.newest_id) =
        (Some(0), "[\"1\"]".to_owned(), Some("1".to_owned()));
    let page = |from: u64, count: u64| -> Vec<_> { (from..from + count).rev().map(body).collect() };
    let gap = |sizes: [u64; 3]| {
        let mut pages = PollPages::new(row.clone());
        let mut from = 9_000;
        for size in sizes.into_iter().filter(|size| *size > 0) {
            pages.take(&page(from, size));
            from -= 1_000;
        }
        match pages.finish(None, None, true, 0).1 {
            Polled::Changed { gap, .. } => gap.is_some(),
            Polled::Unchanged => false,
        }
    };
    assert!(gap([98, 99, 97]) && gap([100, 100, 100]) && gap([99, 100, 5]));
    assert!(!gap([100, 100, 99]) && !gap([98, 97, 0]) && !gap([50, 0, 0]));
}

#[test]
fn what_cannot_be_read_is_set_aside_and_the_rest_goes_on() {
    let mut pages = PollPages::new(row());
    pages.take(&[body(6), Bytes::from_static(b"[1]"), body(3)]);
    let (batch, _) = pages.finish(None, None, true, 0);
    assert_eq!((batch.pushes.len(), batch.rejected.len()), (2, 1));
}

#[derive(Clone, Debug)]
struct Turn {
    /// Events since the last look: few enough to be seen, or more than a list holds.
    came: u64,
    coming: Vec<u64>,
    breaks_after: Option<usize>,
    /// Nobody looked for a while.
    minutes: i64,
}

fn turn(breaks: bool) -> impl Strategy<Value = Turn> {
    let came = prop_oneof![3 => 0_u64..=20, 3 => 0_u64..=250, 1 => 310_u64..=2_000];
    let coming = proptest::collection::vec(0_u64..=10, 3);
    let breaks_after = if breaks {
        prop_oneof![2 => Just(None), 1 => (0_usize..3).prop_map(Some)].boxed()
    } else {
        Just(None).boxed()
    };
    (came, coming, breaks_after, 1_i64..100_000).prop_map(
        |(came, coming, breaks_after, minutes)| Turn {
            came,
            coming,
            breaks_after,
            // Never as long as GitHub shows events.
            minutes: minutes.min(LISTED_FOR_MS / MINUTE_MS),
        },
    )
}

proptest! {
    // Each is a long run.
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever comes between two looks and while pages are read: a hole is noted exactly when
    /// something was missed, and what was missed lies in it. Others are counted once.
    #[test]
    fn every_hole_is_noted_and_no_other(
        there in 0_u64..=1_000,
        turns in proptest::collection::vec(turn(false), 1..12),
    ) {
        let (mut list, mut follower) = Follower::of(there);
        let first = follower.newest().saturating_sub(LISTED as u64);
        for turn in turns {
            let (before, gaps) = (follower.newest(), follower.gaps.len());
            list.newest += turn.came;
            follower.now_ms += turn.minutes * MINUTE_MS;
            follower.look(&mut list, &turn.coming, None);
            let missed = follower.missed(before);
            let new = &follower.gaps[gaps..];
            prop_assert_eq!(new.len(), usize::from(!missed.is_empty()));
            prop_assert!(missed.iter().all(|id| new.iter().any(|gap| covers(gap, *id))));
        }
        let all = (first + 1..=follower.newest()).filter(|id| id % 3 != 0).count() as i64;
        if follower.gaps.is_empty() {
            prop_assert_eq!(follower.others, all);
        }
    }

    /// The same when looks break off: nothing that was missed is outside of a hole.
    #[test]
    fn nothing_is_missed_silently_even_when_looks_break_off(
        turns in proptest::collection::vec(turn(true), 1..12),
    ) {
        let (mut list, mut follower) = Follower::of(40);
        for turn in turns {
            list.newest += turn.came;
            follower.now_ms += turn.minutes * MINUTE_MS;
            follower.look(&mut list, &turn.coming, turn.breaks_after);
        }
        follower.look(&mut list, &[], None);
        for id in follower.missed(0) {
            prop_assert!(follower.gaps.iter().any(|gap| covers(gap, id)), "{}", id);
        }
    }
}
