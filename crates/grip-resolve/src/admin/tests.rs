use futures_util::{FutureExt as _, StreamExt as _, future::join_all, stream::FuturesUnordered};
use grip_db::{on_both_engines, prepare_all};
use grip_testkit::{Author, until, within};
use tokio::sync::oneshot;

use super::*;
use crate::{
    Ask, Key, Options,
    testing::{Node, manifest_of},
};

fn order(key: Option<&str>) -> Order {
    Order {
        actor: "operator\u{0}".into(),
        idempotency_key: key.map(str::to_owned),
        correlation: Some("abc".into()),
    }
}

async fn admin(db: &Db) -> (Node, Admin) {
    let node = Node::new(None, Options::default());
    let admin = Admin::open(db.clone(), node.resolver.clone())
        .await
        .unwrap();
    (node, admin)
}

/// Gives an order and waits for what comes of it.
async fn ordered(admin: &Admin, command: Command, order: Order) -> Result<Done, AdminError> {
    admin.carry_out(command, order, |_| {}).await
}

/// Gives an order and leaves at once.
fn left_alone(admin: &Admin, command: Command) -> oneshot::Receiver<bool> {
    let (tell, told) = oneshot::channel();
    let ended = |done: &Result<Done, AdminError>| {
        let _ = tell.send(done.is_ok());
    };
    let begun = admin.carry_out(command, order(Some("k")), ended);
    assert!(begun.now_or_never().is_none());
    told
}

on_both_engines! {
    async fn every_statement_is_understood(test: TestDatabase) {
        prepare_all(test.db(), sql::ALL).await.unwrap();
    }

    async fn a_pin_outlives_its_repository_and_the_node(test: TestDatabase) {
        let manifest = manifest_of(&Author::new(), "x", 1);
        let key = Key::Name(manifest.name());
        {
            let (node, admin) = admin(test.db()).await;
            let nothing = ordered(&admin, Command::Pin(key.clone()), order(None)).await;
            assert!(matches!(nothing, Err(AdminError::Resolve(ResolveError::Unknown))));
            node.resolver.forget_all();
            node.repos.serve(&manifest);
            let done = ordered(&admin, Command::Pin(key.clone()), order(None)).await.unwrap();
            assert_eq!(done.outcome, format!("pinned {}", manifest.id()));
        }
        let (node, admin) = admin(test.db()).await;
        assert_eq!(node.resolver.resolve(&key, Ask::default()).await.unwrap().id, manifest.id());
        let by_id = Key::Manifest(manifest.id());
        assert!(node.resolver.resolve(&by_id, Ask::default()).await.is_ok());
        let done = ordered(&admin, Command::Unpin(key.clone()), order(None)).await.unwrap();
        assert_eq!(done.outcome, "unpinned 1");
        node.resolver.forget_all();
        let gone = node.resolver.resolve(&key, Ask::default()).await;
        assert_eq!(gone.unwrap_err(), ResolveError::Unknown);
        assert!(admin.pins().await.unwrap().is_empty());
        let actions: Vec<_> = admin.audit(9).await.unwrap();
        let actions: Vec<_> = actions.iter().map(|row| (&*row.action, &*row.actor)).collect();
        assert_eq!(actions, [("unpin", "operator"), ("pin", "operator")]);
    }

    async fn an_order_that_is_sent_twice_is_carried_out_once(test: TestDatabase) {
        let (node, admin) = admin(test.db()).await;
        let manifest = manifest_of(&Author::new(), "x", 1);
        node.repos.serve(&manifest);
        let key = Key::Name(manifest.name());
        let first = ordered(&admin, Command::Pin(key.clone()), order(Some("k1"))).await.unwrap();
        let second = ordered(&admin, Command::Pin(key.clone()), order(Some("k1"))).await.unwrap();
        assert_eq!(second, Done { repeated: true, ..first });
        assert_eq!(admin.audit(9).await.unwrap().len(), 1);
        let other = ordered(&admin, Command::Reindex, order(Some("k1"))).await;
        assert!(matches!(other, Err(AdminError::KeyReused)));
        // Another operator's keys are his own.
        let stranger = Order { actor: "another".into(), ..order(Some("k1")) };
        assert_eq!(ordered(&admin, Command::Reindex, stranger).await.unwrap().outcome, "begun");
        let bad = ordered(&admin, Command::Reindex, order(Some("a\nb"))).await;
        assert!(matches!(bad, Err(AdminError::Order(_))));
    }

    async fn of_two_at_the_same_moment_one_is_carried_out(test: TestDatabase) {
        let (_node, admin) = admin(test.db()).await;
        let orders = (0..8).map(|_| ordered(&admin, Command::Reindex, order(Some("k"))));
        let done = join_all(orders).await;
        let carried = done.iter().filter(|d| matches!(d, Ok(done) if !done.repeated)).count();
        assert_eq!(carried, 1);
        assert!(done.iter().all(Result::is_ok));
        assert_eq!(admin.audit(99).await.unwrap().len(), 1);
    }

    async fn an_order_that_was_begun_is_carried_out_though_nobody_waits(test: TestDatabase) {
        let (node, admin) = admin(test.db()).await;
        let manifest = manifest_of(&Author::new(), "x", 1);
        node.repos.serve(&manifest);
        let by_id = Key::Manifest(manifest.id());
        let key = Key::Name(manifest.name());
        let pinned = left_alone(&admin, Command::Pin(key.clone()));
        assert!(within("the pin is there", pinned).await.unwrap().unwrap());
        assert_eq!((admin.pins().await.unwrap().len(), node.shelf.pins()), (1, 1));
        let again = ordered(&admin, Command::Pin(key), order(Some("k"))).await.unwrap();
        assert!(again.repeated);

        let refused = left_alone(&admin, Command::Unpin(by_id.clone()));
        assert!(!within("the key was used", refused).await.unwrap().unwrap());
        assert_eq!((admin.pins().await.unwrap().len(), node.shelf.pins()), (1, 1));
        let gone = ordered(&admin, Command::Unpin(by_id), order(None)).await.unwrap();
        assert_eq!((gone.outcome.as_str(), node.shelf.pins()), ("unpinned 1", 0));
    }

    async fn who_comes_second_under_one_key_pins_what_the_first_has_pinned(test: TestDatabase) {
        let author = Author::new();
        let [first, second] = [1, 2].map(|age| manifest_of(&author, "x", age));
        let (here, one) = admin(test.db()).await;
        let (there, two) = admin(&test.another("there").await).await;
        here.repos.serve(&first);
        there.repos.serve(&second);
        let pin = Command::Pin(Key::Name(first.name()));
        // The second has seen that the key is free, and reads what to pin meanwhile.
        let reading = there.repos.reading.write().await;
        let later = ordered(&two, pin.clone(), order(Some("k")));
        let earlier = async {
            let has_begun = || async { (there.resolver.counters().misses_total > 0).then_some(()) };
            until("the second resolves", has_begun).await.unwrap();
            let done = ordered(&one, pin.clone(), order(Some("k"))).await.unwrap();
            drop(reading);
            done
        };
        let (later, earlier) = tokio::join!(later, earlier);
        assert_eq!(later.unwrap(), Done { repeated: true, ..earlier });
        for node in [&here, &there] {
            assert_eq!(node.shelf.pins(), 1);
            assert_eq!(node.shelf.pin_of(&first.id()), Some(first.clone()));
        }
    }

    async fn pins_stay_as_they_are_while_the_database_fails(test: TestDatabase) {
        let (node, admin) = admin(test.db()).await;
        let author = Author::new();
        let [kept, other] = ["kept", "other"].map(|name| manifest_of(&author, name, 1));
        let keys = [&kept, &other].map(|manifest| Key::Name(manifest.name()));
        node.repos.serve(&kept);
        node.repos.serve(&other);
        ordered(&admin, Command::Pin(keys[0].clone()), order(None)).await.unwrap();
        test.db().close().await;
        for command in [
            Command::Pin(keys[0].clone()),
            Command::Pin(keys[1].clone()),
            Command::Unpin(keys[0].clone()),
        ] {
            let failed = ordered(&admin, command, order(None)).await;
            assert!(matches!(failed, Err(AdminError::Db(_))), "{failed:?}");
            assert_eq!(node.shelf.pins(), 1);
            assert_eq!(node.shelf.pin_of(&kept.id()), Some(kept.clone()));
        }
    }

    async fn orders_are_carried_out_one_after_the_other(test: TestDatabase) {
        let (node, admin) = admin(test.db()).await;
        let manifest = manifest_of(&Author::new(), "x", 1);
        node.repos.serve(&manifest);
        let key = Key::Name(manifest.name());
        let both = [Command::Pin(key.clone()), Command::Unpin(key)];
        let orders = both.iter().cycle().take(16);
        let orders = orders.map(|command| ordered(&admin, command.clone(), order(None)));
        let done: Vec<_> = join_all(orders).await.into_iter().map(Result::unwrap).collect();
        let pinned = format!("pinned {}", manifest.id());
        for pair in done.chunks(2) {
            assert_eq!([&pair[0].outcome, &pair[1].outcome], [&pinned, "unpinned 1"]);
        }
        assert_eq!((admin.pins().await.unwrap().len(), node.shelf.pins()), (0, 0));
    }

    async fn an_order_that_finds_too_many_waiting_is_refused_at_once(test: TestDatabase) {
        let (_node, admin) = admin(test.db()).await;
        let turn = admin.turns.enter(&()).await.unwrap();
        let orders = (0..=MAX_WAITING).map(|_| ordered(&admin, Command::Reindex, order(None)));
        let mut orders: FuturesUnordered<_> = orders.collect();
        let first = within("one is refused", orders.next()).await.unwrap().unwrap();
        let busy = matches!(first, Err(AdminError::Resolve(ResolveError::Busy { .. })));
        assert!(busy, "{first:?}");
        drop(turn);
        assert!(orders.all(async |done| done.is_ok()).await);
        assert_eq!(admin.audit(99).await.unwrap().len(), MAX_WAITING);
    }
}
