//! Several repositories that claim the same version.

use crate::support::{FakeSource, Running};

grip_db::on_both_engines! {
    async fn the_place_beats_a_claim_and_the_next_takes_over_when_it_goes(test: TestDatabase) {
        let source = FakeSource::new("acme");
        let module = "fake.example/acme/real";
        // A fork that was there first and still names where it comes from.
        source.add_named("fork", &format!("module {module}\n"));
        source.tag("fork", "v1.0.0", 1);
        let running = Running::settled(test.db(), &[&source]).await;
        let before = running.index.stamp().await.unwrap();
        assert_eq!(running.feed().await, [format!("{module}@v1.0.0")]);

        source.add("real");
        source.tag("real", "v1.0.0", 2);
        running.turn(&source, "real").await;
        assert_eq!(running.change_lines(before).await, [format!("moved {module}@v1.0.0 2")]);
        let at = running.index.version(module, "v1.0.0").await.unwrap().unwrap();
        assert_eq!(at.repo, "fake.example/acme/real");

        let before = running.index.stamp().await.unwrap();
        source.remove("real");
        running.turn(&source, "real").await;
        assert_eq!(running.change_lines(before).await, [format!("moved {module}@v1.0.0 1")]);

        let before = running.index.stamp().await.unwrap();
        source.untag("fork", "v1.0.0");
        running.turn(&source, "fork").await;
        assert_eq!(running.change_lines(before).await, [format!("removed {module}@v1.0.0 1")]);
        assert_eq!(running.index.status().await.unwrap().versions, 0);
    }

    async fn the_first_of_two_equals_stays(test: TestDatabase) {
        let source = FakeSource::new("acme");
        for (repo, commit) in [("b", 1), ("a", 2)] {
            source.add_named(repo, "module go.example/tool\n");
            source.tag(repo, "v1.0.0", commit);
        }
        source.unlist("a");
        let running = Running::settled(test.db(), &[&source]).await;
        let before = running.index.stamp().await.unwrap();
        running.turn(&source, "a").await;
        assert!(running.change_lines(before).await.is_empty());
        let at = running.index.version("go.example/tool", "v1.0.0").await.unwrap().unwrap();
        assert_eq!(at.repo, "fake.example/acme/b");
        // Both moved: the first is still the first.
        source.tag("b", "v1.0.0", 3);
        source.tag("a", "v1.0.0", 4);
        running.turn(&source, "a").await;
        running.turn(&source, "b").await;
        assert_eq!(running.change_lines(before).await, ["moved go.example/tool@v1.0.0 3"]);
    }

    async fn a_repository_of_two_sources_is_indexed_once_and_believed_as_the_best_of_them(
        test: TestDatabase
    ) {
        let org = FakeSource::new("acme");
        let host = FakeSource::named("fake.example", "acme");
        for source in [&org, &host] {
            source.add_named("one", "module go.example/tool\n");
            source.tag("one", "v1.0.0", 1);
        }
        host.set_policy("", false);
        let running = Running::settled(test.db(), &[&host, &org]).await;
        assert_eq!(running.feed().await, ["go.example/tool@v1.0.0"]);
        let turns = [org.calls(), host.calls()].concat();
        let turns: Vec<_> = turns.iter().filter(|call| call.starts_with("tags")).collect();
        assert!(turns.len() <= 2, "{turns:?}");
        // One of them lists it no more: it stays, as the other's.
        org.remove("one");
        running.list(&org).await;
        running.list(&org).await;
        assert!(running.feed().await.is_empty());
        let tags = running.tags(&host.full("one")).await;
        assert!(tags[0].why.as_ref().unwrap().contains("nothing proves"));
    }
}
