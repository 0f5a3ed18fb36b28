use std::time::SystemTime;

use grip_db::{Db, on_both_engines};
use grip_queue::State;
use grip_testkit::github::Behaviour;
use serde_json::{Value, json};

use super::*;
use crate::{
    jobs::Role,
    options::Options,
    store::{EventQuery, Gap},
    testing::{Fixture, ageless, fixture},
};

const SOURCE: &str = "orgs/acme";

async fn polling(db: &Db) -> Fixture {
    let options = Options {
        sources: vec![SOURCE.parse().unwrap()],
        ..ageless()
    };
    let fixture = fixture(db, options).await;
    let job = fixture
        .context
        .poll_job(&fixture.context.options.sources[0]);
    let (store, queue) = (&fixture.context.store, fixture.queue());
    store.add_source(queue, SOURCE, job).await.unwrap();
    fixture
}

impl Fixture {
    /// Lets the time pass until the list is due, and looks at it.
    async fn poll(&self) {
        let db = self.context.store.db();
        let due = self.queue().next_due(POLL).await.unwrap().unwrap();
        db.shift_clock_ms((due - db.now_ms()).max(0));
        assert_eq!(self.work_on(POLL, Role::Poll).await, 1);
    }

    fn pushes(&self, count: usize) -> Vec<Value> {
        (0..count)
            .map(|_| self.host.push_event("jo", "acme/one"))
            .collect()
    }

    fn emit_all(&self, events: Vec<Value>) {
        events.into_iter().for_each(|event| self.host.emit(event));
    }

    async fn gaps(&self) -> Vec<Gap> {
        self.context.store.gaps(false, 0, 1_000).await.unwrap()
    }

    async fn source(&self) -> SourceRow {
        self.context.store.source(SOURCE).await.unwrap().unwrap()
    }

    async fn stored(&self) -> Vec<String> {
        let query = EventQuery {
            limit: 10_000,
            ..EventQuery::default()
        };
        let events = self.context.store.events(&query).await.unwrap();
        let mut ids: Vec<_> = events.into_iter().map(|event| event.id).collect();
        ids.sort();
        ids
    }

    async fn due_in_ms(&self) -> i64 {
        let due = self.queue().next_due(POLL).await.unwrap().unwrap();
        due - self.context.store.now_ms()
    }
}

fn ids(events: &[Value]) -> Vec<String> {
    let ids = events
        .iter()
        .map(|event| event["id"].as_str().unwrap().to_owned());
    ids.collect()
}

on_both_engines! {
    async fn a_list_is_read_to_its_end_once_and_then_to_what_is_known(test: TestDatabase) {
        let fixture = polling(test.db()).await;
        let first = fixture.pushes(250);
        fixture.emit_all(first.clone());
        fixture.poll().await;
        assert_eq!(fixture.stored().await, ids(&first));
        assert_eq!((fixture.host.count(), fixture.gaps().await.len()), (3, 0));
        let more = fixture.pushes(20);
        fixture.emit_all(more.clone());
        fixture.host.forget();
        fixture.poll().await;
        assert_eq!((fixture.host.count(), fixture.gaps().await.len()), (1, 0));
        assert_eq!(fixture.stored().await, ids(&[first, more.clone()].concat()));
        let source = fixture.source().await;
        assert_eq!(source.newest_id.as_ref(), ids(&more).last());
        assert_eq!(source.polls, 2);
    }

    async fn an_unchanged_list_costs_nothing_and_is_left_alone_as_long_as_it_wants(test: TestDatabase) {
        let fixture = polling(test.db()).await;
        fixture.host.set_poll_interval(300);
        fixture.emit_all(fixture.pushes(3));
        fixture.poll().await;
        let due = fixture.due_in_ms().await;
        assert!((290_000..=300_000).contains(&due), "{due}");
        let left = fixture.host.remaining(Some(0));
        fixture.poll().await;
        assert_eq!(fixture.host.remaining(Some(0)), left);
        assert_eq!(fixture.host.requests().last().unwrap().status, 304);
        let due = fixture.due_in_ms().await;
        assert!((290_000..=300_000).contains(&due), "{due}");
        assert_eq!(fixture.source().await.polls, 2);
        fixture.host.set_poll_interval(1);
        fixture.emit_all(fixture.pushes(1));
        fixture.poll().await;
        let due = fixture.due_in_ms().await;
        assert!((50_000..=60_000).contains(&due), "never more often than is set: {due}");
    }

    async fn pages_that_move_while_they_are_read_lose_nothing(test: TestDatabase) {
        let fixture = polling(test.db()).await;
        fixture.emit_all(fixture.pushes(1));
        fixture.poll().await;
        let many = fixture.pushes(230);
        fixture.emit_all(many.clone());
        let coming = [fixture.pushes(7), fixture.pushes(30)];
        fixture.host.emit_between_pages(coming.clone());
        fixture.poll().await;
        assert_eq!(fixture.gaps().await, []);
        let stored = fixture.stored().await;
        assert!(ids(&many).iter().all(|id| stored.contains(id)));
        fixture.poll().await;
        assert_eq!(fixture.stored().await.len(), 1 + 230 + 37);
        assert_eq!(fixture.gaps().await, []);
    }

    async fn what_a_list_does_not_show_any_more_is_a_hole_that_says_where(test: TestDatabase) {
        let fixture = polling(test.db()).await;
        let before = fixture.pushes(2);
        fixture.emit_all(before.clone());
        fixture.poll().await;
        // Nobody looks for a while.
        let missed = fixture.pushes(40);
        let seen = fixture.pushes(300);
        fixture.emit_all([missed.clone(), seen.clone()].concat());
        fixture.poll().await;
        fixture.poll().await;
        let gaps = fixture.gaps().await;
        assert_eq!(gaps.len(), 1);
        assert_eq!(gaps[0].after_id.as_ref(), ids(&before).last());
        assert_eq!(gaps[0].before_id.as_ref(), ids(&seen).first());
        assert!(gaps[0].after_at < gaps[0].before_at && gaps[0].closed_at.is_none());
        assert_eq!(fixture.source().await.gaps, 1);
        let stored = fixture.stored().await;
        assert!(ids(&missed).iter().all(|id| !stored.contains(id)));
        let (from, to) = (gaps[0].after_at.unwrap(), gaps[0].before_at.unwrap());
        assert_eq!(fixture.context.store.close_gaps(from, to, "a file").await.unwrap(), 1);
        assert!(fixture.context.store.gaps(true, 0, 10).await.unwrap().is_empty());
    }

    async fn a_look_that_breaks_off_keeps_what_it_has_and_hides_nothing(test: TestDatabase) {
        let fixture = polling(test.db()).await;
        fixture.emit_all(fixture.pushes(5));
        fixture.poll().await;
        let etag = fixture.source().await.etag;
        let many = fixture.pushes(150);
        fixture.emit_all(many.clone());
        let broken = Behaviour::status(500, "no");
        fixture.host.script("/orgs/acme/events", [Behaviour::Serve, broken, Behaviour::Serve]);
        fixture.poll().await;
        assert_eq!(fixture.stored().await.len(), 105, "the first page is kept");
        assert_eq!(fixture.source().await.etag, etag, "and the list counts as unread");
        let job = fixture.queue().find(POLL, SOURCE).await.unwrap().unwrap();
        assert_eq!(job.attempts, 1);
        fixture.poll().await;
        assert_eq!((fixture.stored().await.len(), fixture.gaps().await.len()), (155, 0));
    }

    async fn events_that_are_no_pushes_are_counted_once_and_close_no_gap_falsely(test: TestDatabase) {
        let fixture = polling(test.db()).await;
        let other = |n: u64, kind: &str| json!({
            "id": (90_000 + n).to_string(), "type": kind, "repo": { "name": "acme/one" },
        });
        fixture.emit_all((0..30).map(|n| other(n, "WatchEvent")).collect());
        fixture.poll().await;
        fixture.emit_all((30..40).map(|n| other(n, "ForkEvent")).collect());
        fixture.host.emit(json!("nonsense"));
        fixture.host.emit(json!({ "id": 7, "type": "PushEvent", "repo": { "name": "acme/one" } }));
        fixture.poll().await;
        fixture.emit_all(fixture.pushes(2));
        fixture.poll().await;
        fixture.poll().await;
        let counts = fixture.context.store.counts().await.unwrap();
        let count = |kind: &str| counts.iter().find(|(_, found, _)| found == kind).map_or(0, |(.., count)| *count);
        assert_eq!((count("WatchEvent"), count("ForkEvent"), count("PushEvent")), (30, 10, 2));
        assert_eq!(fixture.gaps().await, []);
        let rejected = fixture.context.store.recent_rejections(10).await.unwrap();
        assert_eq!((rejected.len(), rejected[0].source.as_str()), (1, SOURCE));
    }

    async fn a_tag_that_a_list_shows_is_told_at_once(test: TestDatabase) {
        let fixture = polling(test.db()).await;
        let tag = |kind: &str, ref_type: &str, repo: &str| {
            let mut event = fixture.host.push_event("jo", repo);
            event["type"] = kind.into();
            event["payload"] = json!({ "ref": "v1.0.0", "ref_type": ref_type });
            event["created_at"] = jiff::Timestamp::now().to_string().into();
            event
        };
        let mut hidden = tag("DeleteEvent", "tag", "acme/secret");
        hidden["public"] = false.into();
        fixture.emit_all(vec![
            tag("CreateEvent", "tag", "acme/one"),
            tag("CreateEvent", "tag", "acme/one"),
            tag("CreateEvent", "branch", "acme/two"),
            hidden,
        ]);
        fixture.poll().await;
        while fixture.work_on(crate::jobs::TAGGED, Role::Tagged).await > 0 {}
        let mut told = fixture.pushes.0.lock().clone();
        told.sort();
        assert_eq!(told, ["tags of acme/one", "tags of acme/secret (private)"]);
        assert!(fixture.stored().await.is_empty());
    }

    async fn a_look_that_lost_its_lease_changes_nothing(test: TestDatabase) {
        let fixture = polling(test.db()).await;
        fixture.emit_all(fixture.pushes(3));
        let queue = fixture.queue();
        let lease = |leases: Vec<Lease>| leases.into_iter().next().unwrap();
        let old = lease(queue.claim(POLL, 1, crate::testing::LEASE).await.unwrap());
        test.db().shift_clock_ms(61_000);
        let new = lease(queue.claim(POLL, 1, crate::testing::LEASE).await.unwrap());
        assert_eq!(fixture.context.poll(&old).await, Outcome::Finished);
        assert!(fixture.stored().await.is_empty());
        assert_eq!(fixture.source().await.polls, 0);
        assert_eq!(fixture.context.poll(&new).await, Outcome::Finished);
        assert_eq!((fixture.stored().await.len(), fixture.source().await.polls), (3, 1));
    }

    async fn every_hole_of_a_long_run_is_noted_and_no_other(test: TestDatabase) {
        let fixture = polling(test.db()).await;
        let mut seed = 7_u64;
        let mut chance = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        fixture.emit_all(fixture.pushes(10));
        fixture.poll().await;
        let (mut all, mut holes) = (fixture.stored().await, 0);
        for _ in 0..8 {
            let came = match chance(4) {
                0 => 310 + chance(50),
                1 => chance(250),
                _ => chance(30),
            };
            let events = fixture.pushes(came as usize);
            all.extend(ids(&events));
            fixture.emit_all(events);
            let coming: Vec<_> = (0..2).map(|_| fixture.pushes(chance(5) as usize)).collect();
            all.extend(coming.iter().flat_map(|events| ids(events)));
            fixture.host.emit_between_pages(coming);
            fixture.poll().await;
            holes += usize::from(came >= 310);
            assert_eq!(fixture.gaps().await.len(), holes);
        }
        assert!(holes > 0);
        fixture.poll().await;
        let (stored, gaps) = (fixture.stored().await, fixture.gaps().await);
        for id in all.iter().filter(|id| !stored.contains(id)) {
            let covers = |gap: &Gap| gap.after_id.as_ref() < Some(id) && Some(id) < gap.before_id.as_ref();
            assert!(gaps.iter().any(covers), "{id} was missed silently");
        }
        assert_eq!(gaps.len(), holes);
    }
}

#[tokio::test]
async fn a_list_that_is_not_there_is_tried_again_later_and_says_why() {
    let test = grip_db::TestDatabase::sqlite().await;
    let fixture = polling(test.db()).await;
    fixture
        .host
        .behave("/orgs/acme/events", Behaviour::status(404, "Not Found"));
    fixture.poll().await;
    let job = fixture.queue().find(POLL, SOURCE).await.unwrap().unwrap();
    assert_eq!((job.state, job.attempts), (State::Waiting, 0));
    assert!(job.last_error.unwrap().contains("not there"));
    let due = fixture.due_in_ms().await;
    assert!((3_590_000..=3_600_000).contains(&due), "{due}");
}

#[tokio::test]
async fn a_list_without_end_is_not_read_for_ever() {
    let test = grip_db::TestDatabase::sqlite().await;
    let fixture = polling(test.db()).await;
    fixture.emit_all(fixture.pushes(150));
    fixture
        .host
        .behave("/orgs/acme/events", Behaviour::EndlessPages);
    fixture.poll().await;
    assert_eq!(fixture.host.count(), MOST_PAGES);
    assert_eq!(fixture.stored().await.len(), 100);
    assert_eq!(fixture.source().await.polls, 0, "nonsense is no look");
}

#[tokio::test]
async fn a_list_that_is_not_configured_here_is_left_to_others() {
    let test = grip_db::TestDatabase::sqlite().await;
    let fixture = polling(test.db()).await;
    let job = NewJob::new(POLL, "users/jo");
    fixture.queue().enqueue(vec![job]).await.unwrap();
    fixture.work_on(POLL, Role::Poll).await;
    let job = fixture
        .queue()
        .find(POLL, "users/jo")
        .await
        .unwrap()
        .unwrap();
    assert!(job.last_error.unwrap().contains("not configured"));
}

#[tokio::test]
async fn a_spent_budget_puts_the_look_off_to_its_end() {
    let test = grip_db::TestDatabase::sqlite().await;
    let fixture = polling(test.db()).await;
    fixture.host.use_up(Some(0), 5_000);
    let began = SystemTime::now();
    fixture.poll().await;
    fixture.poll().await;
    let budgets = fixture.context.github.budget();
    assert!(budgets[0].reset.unwrap() > began);
    let job = fixture.queue().find(POLL, SOURCE).await.unwrap().unwrap();
    assert!(job.due_ms.unwrap() > test.db().now_ms());
    assert_eq!(
        fixture.host.counts().over_budget,
        1,
        "asked once, to learn it"
    );
}
