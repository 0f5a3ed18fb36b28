use grip_db::{on_both_engines, prepare_all};
use grip_testkit::Author;

use super::*;
use crate::{
    Options,
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

on_both_engines! {
    async fn every_statement_is_understood(test: TestDatabase) {
        prepare_all(test.db(), sql::ALL).await.unwrap();
    }

    async fn a_pin_outlives_its_repository_and_the_node(test: TestDatabase) {
        let manifest = manifest_of(&Author::new(), "x", 1);
        let key = Key::Name(manifest.name());
        {
            let (node, admin) = admin(test.db()).await;
            let nothing = admin.pin(&key, &order(None)).await;
            assert!(matches!(nothing, Err(AdminError::Resolve(ResolveError::Unknown))));
            node.resolver.forget_all();
            node.repos.serve(&manifest);
            let done = admin.pin(&key, &order(None)).await.unwrap();
            assert_eq!(done.outcome, format!("pinned {}", manifest.id()));
        }
        let (node, admin) = admin(test.db()).await;
        assert_eq!(node.resolver.resolve(&key, Ask::default()).await.unwrap().id, manifest.id());
        let by_id = Key::Manifest(manifest.id());
        assert!(node.resolver.resolve(&by_id, Ask::default()).await.is_ok());
        let done = admin.unpin(&key, &order(None)).await.unwrap();
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
        let first = admin.pin(&key, &order(Some("k1"))).await.unwrap();
        let second = admin.pin(&key, &order(Some("k1"))).await.unwrap();
        assert_eq!(second, Done { repeated: true, ..first });
        assert_eq!(admin.audit(9).await.unwrap().len(), 1);
        let other = admin.reindex(&order(Some("k1"))).await;
        assert!(matches!(other, Err(AdminError::KeyReused)));
        // Another operator's keys are his own.
        let stranger = Order { actor: "another".into(), ..order(Some("k1")) };
        assert_eq!(admin.reindex(&stranger).await.unwrap().outcome, "begun");
        let bad = admin.reindex(&order(Some("a\nb"))).await;
        assert!(matches!(bad, Err(AdminError::Order(_))));
    }

    async fn of_two_at_the_same_moment_one_is_carried_out(test: TestDatabase) {
        let (_node, admin) = admin(test.db()).await;
        let (k, one) = (order(Some("k")), admin.clone());
        let orders = (0..8).map(|_| one.reindex(&k));
        let done = futures_util::future::join_all(orders).await;
        let carried = done.iter().filter(|d| matches!(d, Ok(done) if !done.repeated)).count();
        assert_eq!(carried, 1);
        assert!(done.iter().all(Result::is_ok));
        assert_eq!(admin.audit(99).await.unwrap().len(), 1);
    }
}
