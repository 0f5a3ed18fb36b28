//! Tags and files that were made to do harm.

use grip_index::Reader;

use crate::support::{FakeSource, Running};

grip_db::on_both_engines! {
    async fn hostile_names_of_tags_are_kept_with_a_reason_and_stay_out(test: TestDatabase) {
        let source = FakeSource::one(&[]);
        let long = "x".repeat(4096);
        let names = [
            "..", "../v1.0.0", "sub/../v1.0.0", "v1.0.0\n", "v1.0.0\0", "\0", "a\nb/v1.0.0",
            &long, "<script>alert(1)</script>/v1.0.0", "v1.0.0'; DROP TABLE repos; --",
            "\u{202e}v1.0.0", "", " ", "%00", "v1.0.0\u{7f}",
        ];
        for (n, name) in names.iter().enumerate() {
            source.tag("one", name, n as u32);
        }
        source.tag("one", &format!("{long}y"), 100);
        source.tag("one", "v1.0.0", 101);
        let running = Running::settled(test.db(), &[&source]).await;
        assert_eq!(running.feed().await, ["fake.example/acme/one@v1.0.0"]);
        let tags = running.tags(&source.full("one")).await;
        assert_eq!(tags.len(), names.len() + 2);
        let strange: Vec<_> = tags.iter().filter(|tag| tag.name.contains('…')).collect();
        assert_eq!(strange.len(), 8, "{strange:?}");
        for tag in strange {
            let why = tag.why.as_deref().unwrap();
            assert_eq!(why, "its name is empty, too long or has control characters");
        }
        // They are recognised the next time.
        source.calls();
        running.turn(&source, "one").await;
        assert_eq!(source.calls(), ["tags fake.example/acme/one"]);
        source.untag("one", &long);
        running.turn(&source, "one").await;
        assert_eq!(running.tags(&source.full("one")).await.len(), names.len() + 1);
    }

    async fn files_that_name_no_module_leave_their_reason(test: TestDatabase) {
        let source = FakeSource::new("acme");
        let huge = vec![b'\n'; grip_go::go_mod::MAX_BYTES + 1];
        for (repo, text) in [
            ("binary", b"module \xff\xfe\n".to_vec()),
            ("empty", Vec::new()),
            ("huge", huge),
            ("twice", b"module a.example\nmodule b.example\n".to_vec()),
            ("html", b"<html><body>Unicorn!</body></html>".to_vec()),
        ] {
            source.add(repo);
            source.tag(repo, "v1.0.0", 1);
            source.go_mod(repo, "", text);
        }
        let running = Running::settled(test.db(), &[&source]).await;
        assert!(running.feed().await.is_empty());
        for repo in ["binary", "empty", "huge", "twice", "html"] {
            let tags = running.tags(&source.full(repo)).await;
            let why = tags[0].why.clone().unwrap_or_default();
            assert!(why.contains("go.mod"), "{repo}: {why}");
            assert_eq!(tags[0].created_ms, None, "its date was not asked");
        }
    }

    async fn names_of_repositories_that_cannot_be_are_left_out(test: TestDatabase) {
        let source = FakeSource::new("acme");
        for repo in ["good", "line\nbreak", "nul\0", &"x".repeat(2_000)] {
            source.add(repo);
        }
        let running = Running::settled(test.db(), &[&source]).await;
        let repos = running.index.repos("", 10, Reader::All).await.unwrap();
        let names: Vec<_> = repos.iter().map(|repo| &*repo.name).collect();
        assert_eq!(names, ["fake.example/acme/good"]);
    }
}
