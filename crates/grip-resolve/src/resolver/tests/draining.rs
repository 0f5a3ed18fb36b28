//! Resolutions in flight when the node stops.

use grip_testkit::CapturedLog;

use super::*;

/// Keys that nobody answers, and what their callers get after the node began to drain at 400 ms.
async fn drained(options: Options) -> (Node, Vec<(ResolveError, Duration)>) {
    let memory = Memory::new(24);
    for name in memory.names() {
        memory.fault(name, Fault::Stall);
    }
    let node = Node::new(Some(memory.member(0)), options);
    let keys: Vec<Key> = (0..4).map(some_key).collect();
    let began = Instant::now();
    let asking = keys.iter().map(|key| async {
        let answer = node.resolve(key).await;
        (answer.unwrap_err(), began.elapsed())
    });
    let drain = async {
        tokio::time::sleep(ms(400)).await;
        node.draining.cancel();
    };
    let (answers, ()) = tokio::join!(join_all(asking), drain);
    (node, answers)
}

#[tokio::test(start_paused = true)]
async fn a_resolution_in_flight_goes_on_to_its_deadline_while_the_node_drains() {
    let (log, _guard) = CapturedLog::start();
    let (node, answers) = drained(Options::default()).await;
    assert_eq!(answers, vec![(ResolveError::Timeout, ms(1_200)); 4]);
    assert_eq!(node.group.shutdown(ms(100)).await, Ended::Drained);
    assert_words(&log, "drained resolutions under_way=4");
}

#[tokio::test(start_paused = true)]
async fn a_resolution_that_would_outlive_the_drain_is_cancelled_before_its_caller_is_cut_off() {
    let options = Options {
        deadline: ms(8_000),
        drain: ms(2_000),
        ..Options::default()
    };
    let (log, _guard) = CapturedLog::start();
    let (node, answers) = drained(options).await;
    // 400 ms and the drain of 2 s, less a tenth in which the responses are written.
    assert_eq!(answers, vec![(ResolveError::Canceled, ms(2_200)); 4]);
    assert_eq!(node.resolver.counters().canceled_total, 4);
    let late = node.resolve(&some_key(9)).await;
    assert_eq!(late.unwrap_err(), ResolveError::Canceled);
    assert_eq!(node.group.shutdown(ms(100)).await, Ended::Drained);
    assert_words(&log, "aborted resolutions under_way=4 left=4");
}

#[tokio::test(start_paused = true)]
async fn resolutions_that_a_stop_ends_are_aborted_whether_or_not_the_node_drained_before() {
    for drains_before in [false, true] {
        let (log, _guard) = CapturedLog::start();
        let (_memory, node) = stalling();
        let (first, second) = (some_key(1), some_key(2));
        let asking = join_all([node.resolve(&first), node.resolve(&second)]);
        let stop = async {
            tokio::time::sleep(ms(100)).await;
            if drains_before {
                node.draining.cancel();
                tokio::time::sleep(ms(100)).await;
            }
            node.group.shutdown(ms(100)).await
        };
        let (answers, ended) = tokio::join!(asking, stop);
        for answer in answers {
            assert_eq!(answer.unwrap_err(), ResolveError::Canceled);
        }
        assert_eq!(ended, Ended::Drained);
        assert_words(&log, "aborted resolutions under_way=2 left=2");
    }
}

/// Says how the resolutions ended in these words, once and in no others.
#[track_caller]
fn assert_words(log: &CapturedLog, words: &str) {
    let log = log.text();
    let ends = log.lines().filter(|line| line.contains("ed resolutions"));
    let ends: Vec<_> = ends.collect();
    assert!(matches!(ends[..], [end] if end.contains(words)), "{log}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_while_the_node_drains_reaches_its_caller() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let (_memory, node) = everywhere(&manifest, ms(300));
    let key = Key::Name(manifest.name());
    let drain = async {
        tokio::time::sleep(ms(100)).await;
        node.draining.cancel();
    };
    let (found, ()) = tokio::join!(node.resolve(&key), drain);
    assert_eq!(found.unwrap().id, manifest.id());
    // Who was taken on before is served as well: the edge takes on nobody else.
    let cached = node.resolve(&key).await.unwrap();
    assert_eq!(cached.source, Source::Cache);
}
