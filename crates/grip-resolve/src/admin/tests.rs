use futures_util::{FutureExt as _, StreamExt as _, future::join_all, stream::FuturesUnordered};
use grip_db::{on_both_engines, prepare_all};
use grip_testkit::{Author, until, within};
use grip_types::Owner;
use tokio::sync::oneshot;

use super::*;
use crate::{
    Key, Options,
    testing::{Node, manifest_of},
};

fn context(key: Option<&str>) -> CommandContext {
    CommandContext {
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

/// Executes a command and waits for its result.
async fn executed(
    admin: &Admin,
    command: Command,
    context: CommandContext,
) -> Result<CommandResult, AdminError> {
    admin.execute(command, context, |_| {}).await
}

/// Executes a command and leaves at once.
fn left_alone(admin: &Admin, command: Command) -> oneshot::Receiver<bool> {
    let (sender, ended_well) = oneshot::channel();
    let ended = |done: &Result<CommandResult, AdminError>| {
        let _ = sender.send(done.is_ok());
    };
    let begun = admin.execute(command, context(Some("k")), ended);
    assert!(begun.now_or_never().is_none());
    ended_well
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
            let nothing = executed(&admin, Command::Pin(key.clone()), context(None)).await;
            assert!(matches!(nothing, Err(AdminError::Resolve(ResolveError::Unknown))));
            node.resolver.forget_all();
            node.repos.serve(&manifest);
            let done = executed(&admin, Command::Pin(key.clone()), context(None)).await.unwrap();
            assert_eq!(done.outcome, format!("pinned {}", manifest.id()));
        }
        let (node, admin) = admin(test.db()).await;
        assert_eq!(node.resolve(&key).await.unwrap().id, manifest.id());
        let by_id = Key::Manifest(manifest.id());
        assert!(node.resolve(&by_id).await.is_ok());
        let done = executed(&admin, Command::Unpin(key.clone()), context(None)).await.unwrap();
        assert_eq!(done.outcome, "unpinned 1");
        node.resolver.forget_all();
        let gone = node.resolve(&key).await;
        assert_eq!(gone.unwrap_err(), ResolveError::Unknown);
        assert!(admin.pins().await.unwrap().is_empty());
        let actions: Vec<_> = admin.audit(9).await.unwrap();
        let actions: Vec<_> = actions.iter().map(|row| (&*row.action, &*row.actor)).collect();
        assert_eq!(actions, [("unpin", "operator"), ("pin", "operator")]);
    }

    async fn a_command_that_is_sent_twice_is_executed_once(test: TestDatabase) {
        let (node, admin) = admin(test.db()).await;
        let manifest = manifest_of(&Author::new(), "x", 1);
        node.repos.serve(&manifest);
        let key = Key::Name(manifest.name());
        let first = executed(&admin, Command::Pin(key.clone()), context(Some("k1"))).await.unwrap();
        let second = executed(&admin, Command::Pin(key.clone()), context(Some("k1"))).await.unwrap();
        assert_eq!(second, CommandResult { repeated: true, ..first });
        assert_eq!(admin.audit(9).await.unwrap().len(), 1);
        let other = executed(&admin, Command::Reindex, context(Some("k1"))).await;
        assert!(matches!(other, Err(AdminError::KeyReused)));
        // Another operator's keys are his own.
        let stranger = CommandContext { actor: "another".into(), ..context(Some("k1")) };
        assert_eq!(executed(&admin, Command::Reindex, stranger).await.unwrap().outcome, "begun");
        let bad = executed(&admin, Command::Reindex, context(Some("a\nb"))).await;
        assert!(matches!(bad, Err(AdminError::IdempotencyKey(_))));
    }

    async fn of_two_at_the_same_moment_one_is_carried_out(test: TestDatabase) {
        let (_node, admin) = admin(test.db()).await;
        let commands = (0..8).map(|_| executed(&admin, Command::Reindex, context(Some("k"))));
        let done = join_all(commands).await;
        let carried = done.iter().filter(|d| matches!(d, Ok(done) if !done.repeated)).count();
        assert_eq!(carried, 1);
        assert!(done.iter().all(Result::is_ok));
        assert_eq!(admin.audit(99).await.unwrap().len(), 1);
    }

    async fn a_command_that_was_begun_is_executed_though_its_caller_left(test: TestDatabase) {
        let (node, admin) = admin(test.db()).await;
        let manifest = manifest_of(&Author::new(), "x", 1);
        node.repos.serve(&manifest);
        let by_id = Key::Manifest(manifest.id());
        let key = Key::Name(manifest.name());
        let pinned = left_alone(&admin, Command::Pin(key.clone()));
        assert!(within("the pin is there", pinned).await.unwrap().unwrap());
        assert_eq!((admin.pins().await.unwrap().len(), node.local_manifests.pins()), (1, 1));
        let again = executed(&admin, Command::Pin(key), context(Some("k"))).await.unwrap();
        assert!(again.repeated);

        let refused = left_alone(&admin, Command::Unpin(by_id.clone()));
        assert!(!within("the key was used", refused).await.unwrap().unwrap());
        assert_eq!((admin.pins().await.unwrap().len(), node.local_manifests.pins()), (1, 1));
        let gone = executed(&admin, Command::Unpin(by_id), context(None)).await.unwrap();
        assert_eq!((gone.outcome.as_str(), node.local_manifests.pins()), ("unpinned 1", 0));
    }

    async fn the_second_command_under_one_key_pins_what_the_first_has_pinned(test: TestDatabase) {
        let author = Author::new();
        let [first, second] = [1, 2].map(|age| manifest_of(&author, "x", age));
        let (here, one) = admin(test.db()).await;
        let (there, two) = admin(&test.another("there").await).await;
        here.repos.serve(&first);
        there.repos.serve(&second);
        let pin = Command::Pin(Key::Name(first.name()));
        // The second has seen that the key is free, and reads what to pin meanwhile.
        let reading = there.repos.reading.write().await;
        let later = executed(&two, pin.clone(), context(Some("k")));
        let earlier = async {
            let has_begun = || async { (there.resolver.counters().misses_total > 0).then_some(()) };
            until("the second resolves", has_begun).await.unwrap();
            let done = executed(&one, pin.clone(), context(Some("k"))).await.unwrap();
            drop(reading);
            done
        };
        let (later, earlier) = tokio::join!(later, earlier);
        assert_eq!(later.unwrap(), CommandResult { repeated: true, ..earlier });
        for node in [&here, &there] {
            assert_eq!(node.local_manifests.pins(), 1);
            assert_eq!(node.local_manifests.pin_of(&first.id()), Some(first.clone()));
        }
    }

    async fn pins_stay_as_they_are_while_the_database_fails(test: TestDatabase) {
        let (node, admin) = admin(test.db()).await;
        let author = Author::new();
        let [kept, other] = ["kept", "other"].map(|name| manifest_of(&author, name, 1));
        let keys = [&kept, &other].map(|manifest| Key::Name(manifest.name()));
        node.repos.serve(&kept);
        node.repos.serve(&other);
        executed(&admin, Command::Pin(keys[0].clone()), context(None)).await.unwrap();
        test.db().close().await;
        for command in [
            Command::Pin(keys[0].clone()),
            Command::Pin(keys[1].clone()),
            Command::Unpin(keys[0].clone()),
        ] {
            let failed = executed(&admin, command, context(None)).await;
            assert!(matches!(failed, Err(AdminError::Db(_))), "{failed:?}");
            assert_eq!(node.local_manifests.pins(), 1);
            assert_eq!(node.local_manifests.pin_of(&kept.id()), Some(kept.clone()));
        }
    }

    async fn commands_are_executed_one_after_the_other(test: TestDatabase) {
        let (node, admin) = admin(test.db()).await;
        let manifest = manifest_of(&Author::new(), "x", 1);
        node.repos.serve(&manifest);
        let key = Key::Name(manifest.name());
        let both = [Command::Pin(key.clone()), Command::Unpin(key)];
        let commands = both.iter().cycle().take(16);
        let commands = commands.map(|command| executed(&admin, command.clone(), context(None)));
        let done: Vec<_> = join_all(commands).await.into_iter().map(Result::unwrap).collect();
        let pinned = format!("pinned {}", manifest.id());
        for pair in done.chunks(2) {
            assert_eq!([&pair[0].outcome, &pair[1].outcome], [&pinned, "unpinned 1"]);
        }
        assert_eq!((admin.pins().await.unwrap().len(), node.local_manifests.pins()), (0, 0));
    }

    async fn a_command_that_finds_too_many_waiting_is_refused_at_once(test: TestDatabase) {
        let (_node, admin) = admin(test.db()).await;
        let turn = admin.turns.enter(&(), Owner::default()).await.unwrap();
        let commands = (0..=MAX_WAITING).map(|_| executed(&admin, Command::Reindex, context(None)));
        let mut commands: FuturesUnordered<_> = commands.collect();
        let first = within("one is refused", commands.next()).await.unwrap().unwrap();
        let busy = matches!(first, Err(AdminError::Resolve(ResolveError::Busy { .. })));
        assert!(busy, "{first:?}");
        drop(turn);
        assert!(commands.all(async |done| done.is_ok()).await);
        assert_eq!(admin.audit(99).await.unwrap().len(), MAX_WAITING);
    }
}
