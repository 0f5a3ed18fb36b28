//! Loom models: every order in which threads can run, tried by `cargo xtask loom`.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use grip_types::Owner;
use loom::{cell::UnsafeCell, future::block_on, sync::Arc, thread};

use crate::{Busy, Lanes, Live, Refused, SingleFlight};

/// Tries every order with at most three switches that no thread waits for: mistakes show in those,
/// and three threads without a bound have more orders than there is time.
fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// What only the holder of the turn may touch: the checker fails if two do at a time.
struct Work(UnsafeCell<u32>);

impl Work {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    #[expect(unsafe_code, reason = "the checker watches exactly this access")]
    fn act(&self) {
        self.0.with_mut(|count| unsafe { *count += 1 });
    }

    #[expect(unsafe_code, reason = "the checker watches exactly this access")]
    fn done(&self) -> u32 {
        self.0.with(|count| unsafe { *count })
    }
}

/// Waits for a turn and acts; says whether it was let in at all.
fn take_a_turn(lanes: &Lanes<u8>, work: &Work) -> Result<(), Busy> {
    let turn = block_on(lanes.enter(&1, Owner::default()))?;
    work.act();
    drop(turn);
    Ok(())
}

#[test]
fn with_room_for_one_to_wait_nobody_waits_for_ever_and_nobody_acts_beside_another() {
    check(|| {
        let (lanes, work) = (Lanes::<u8>::new(1), Work::new());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (lanes, work) = (lanes.clone(), Arc::clone(&work));
                thread::spawn(move || take_a_turn(&lanes, &work).is_ok())
            })
            .collect();
        let mut let_in = u32::from(take_a_turn(&lanes, &work).is_ok());
        for other in others {
            let_in += u32::from(
                other
                    .join()
                    .expect("because a model ends at its first panic"),
            );
        }
        assert!(let_in >= 2, "one has the turn and one may wait");
        assert_eq!(work.done(), let_in, "who was let in has acted, once");
        assert_eq!((lanes.in_use(), lanes.waiting()), (0, 0));
    });
}

#[test]
fn a_turn_that_is_granted_to_someone_who_gives_up_goes_on_to_the_next() {
    check(|| {
        let (lanes, work) = (Lanes::<u8>::new(2), Work::new());
        let first = block_on(lanes.enter(&1, Owner::default())).expect("because the lane is empty");
        let leaver = {
            let lanes = lanes.clone();
            // Told to stop while it waits: the future is dropped, wherever it stands.
            thread::spawn(move || {
                let mut entering = pin!(lanes.enter(&1, Owner::default()));
                let polled = entering
                    .as_mut()
                    .poll(&mut Context::from_waker(Waker::noop()));
                matches!(polled, Poll::Ready(Ok(_)))
            })
        };
        let stayer = {
            let (lanes, work) = (lanes.clone(), Arc::clone(&work));
            thread::spawn(move || take_a_turn(&lanes, &work).is_ok())
        };
        drop(first);
        leaver
            .join()
            .expect("because a model ends at its first panic");
        let had = stayer
            .join()
            .expect("because a model ends at its first panic");
        assert!(had, "two may wait");
        assert_eq!(work.done(), 1);
        assert_eq!((lanes.in_use(), lanes.waiting()), (0, 0));
    });
}

#[test]
fn settings_are_seen_as_they_were_or_as_they_are_and_never_go_back() {
    check(|| {
        let live = Arc::new(Live::new((1, 1)));
        let writer = {
            let live = Arc::clone(&live);
            thread::spawn(move || live.set((2, 2)))
        };
        let (first, second) = (live.get(), live.get());
        assert_eq!(first.0, first.1);
        assert_eq!(second.0, second.1);
        assert!(
            first.0 <= second.0,
            "the new one was seen and then the old one"
        );
        writer
            .join()
            .expect("because a model ends at its first panic");
        assert_eq!(*live.get(), (2, 2));
    });
}

#[test]
fn a_value_that_no_longer_fits_is_made_once_however_many_ask() {
    check(|| {
        let live = Arc::new(Live::new((1, 0)));
        let ask = |live: &Live<(u32, u32)>, who| live.renew(|now| now.0 == 2, || (2, who));
        let other = {
            let live = Arc::clone(&live);
            thread::spawn(move || ask(&live, 7).1)
        };
        let mine = ask(&live, 8).1;
        let theirs = other
            .join()
            .expect("because a model ends at its first panic");
        assert_eq!(mine, theirs, "both have the same one");
    });
}

/// Asks for `key` and waits; the value, none where the job was dropped, or why it was not let in.
fn ask(flights: &SingleFlight<u8, (), u32>, key: u8) -> Result<Option<u32>, Refused> {
    let flight = flights.join_or_start(&key, ())?;
    Ok(block_on(flight.wait()))
}

#[test]
fn everybody_who_was_let_in_is_answered_though_the_queue_is_closed_in_the_middle() {
    check(|| {
        let (flights, mut jobs) = SingleFlight::<u8, (), u32>::new(1);
        let (flights, work) = (Arc::new(flights), Work::new());
        let callers: Vec<_> = [1, 2]
            .into_iter()
            .map(|key| {
                let flights = Arc::clone(&flights);
                thread::spawn(move || ask(&flights, key))
            })
            .collect();
        // The worker is told to stop at any moment: it takes no more and does what was queued.
        jobs.close();
        let mut done = 0;
        while let Some(job) = block_on(jobs.next()) {
            work.act();
            done += 1;
            job.finish(7);
        }
        let mut answered = 0;
        for caller in callers {
            match caller
                .join()
                .expect("because a model ends at its first panic")
            {
                Ok(value) => {
                    assert_eq!(value, Some(7), "a job that was queued is done");
                    answered += 1;
                }
                Err(Refused::Full | Refused::Closed) => {}
            }
        }
        assert_eq!((work.done(), done), (answered, answered));
        assert_eq!((flights.in_flight(), flights.queued()), (0, 0));
    });
}

#[test]
fn a_caller_that_joins_while_the_job_ends_gets_its_value_or_starts_another() {
    check(|| {
        let (flights, mut jobs) = SingleFlight::<u8, (), u32>::new(2);
        let flights = Arc::new(flights);
        let first = flights
            .join_or_start(&1, ())
            .expect("because the queue is empty");
        let other = {
            let flights = Arc::clone(&flights);
            thread::spawn(move || ask(&flights, 1))
        };
        let job = block_on(jobs.next()).expect("because one was queued");
        job.finish(1);
        jobs.close();
        // One that was begun after the first had ended is dropped: its caller gets no value.
        while let Some(job) = block_on(jobs.next()) {
            drop(job);
        }
        let other = other
            .join()
            .expect("because a model ends at its first panic");
        assert!(
            matches!(other, Ok(Some(1) | None) | Err(Refused::Closed)),
            "{other:?}"
        );
        assert_eq!(block_on(first.wait()), Some(1));
        assert_eq!((flights.in_flight(), flights.queued()), (0, 0));
    });
}
