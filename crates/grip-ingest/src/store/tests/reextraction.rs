use super::*;
use crate::store::reextraction::Reextraction;

grip_db::statements! {
    mod spoil {
        USERS = "UPDATE github_users SET login = 'x', bio = NULL, unfit = 'y'";
        REPOSITORIES = "UPDATE github_repositories SET license_key = NULL, topics = 'z'";
        EVENTS = "UPDATE push_events SET push_id = NULL, \"before\" = NULL, actor_login = 'x'";
        BREAK_ONE = "UPDATE push_events SET raw = '{}' WHERE id = '7'";
    }
}

async fn run(db: &Db, statement: &'static grip_db::Statement) {
    db.execute(statement, &[]).await.unwrap();
}

async fn begin(kept: &Kept, work: Reextraction) {
    let store = kept.store.clone();
    let beginning = kept
        .store
        .db()
        .write(move |mut db| Box::pin(async move { store.begin_work(&mut db, work.name()).await }));
    beginning.await.unwrap();
}

async fn step(kept: &Kept, work: Reextraction) -> bool {
    kept.store
        .reextract_step(work, &kept.queue, LIVE)
        .await
        .unwrap()
}

on_both_engines! {
    async fn columns_are_written_anew_from_what_was_kept(test: TestDatabase) {
        let kept = kept(test.db());
        for (record_kind, fields, work, statement) in [
            (RecordKind::User, USER, Reextraction::Users, &spoil::USERS),
            (RecordKind::Repository, REPOSITORY, Reextraction::Repositories, &spoil::REPOSITORIES),
        ] {
            kept.save(record_kind, &words(fields).0).await;
            let before = kept.store.stored(record_kind, &Key::Id(1_000)).await.unwrap().unwrap();
            run(test.db(), statement).await;
            begin(&kept, work).await;
            assert!(step(&kept, work).await);
            let mut after = kept.store.stored(record_kind, &Key::Id(1_000)).await.unwrap().unwrap();
            assert!(after.updated_at >= before.updated_at);
            after.updated_at = before.updated_at;
            assert_eq!(after, before);
        }
    }

    async fn it_goes_on_where_it_was_interrupted_and_names_what_cannot_be_read(test: TestDatabase) {
        let first = kept(test.db());
        let events: Vec<_> = (1..=450).map(push).collect();
        first.accept(&events).await;
        run(test.db(), &spoil::EVENTS).await;
        run(test.db(), &spoil::BREAK_ONE).await;
        begin(&first, Reextraction::Events).await;
        assert!(!step(&first, Reextraction::Events).await);
        let progress = first.store.all_work().await.unwrap().remove(0);
        assert_eq!((progress.done + progress.failed, progress.finished_at), (200, None));
        drop(first);

        let test = test.reopen().await;
        let second = kept(test.db());
        assert!(!step(&second, Reextraction::Events).await);
        assert!(step(&second, Reextraction::Events).await);
        let progress = second.store.all_work().await.unwrap().remove(0);
        assert_eq!((progress.done, progress.failed), (449, 1));
        assert!(progress.finished_at.is_some());
        let query = EventQuery { limit: 1_000, ..EventQuery::default() };
        let events = second.store.events(&query).await.unwrap();
        let spoiled: Vec<_> = events.iter().filter(|event| event.push_id.is_none()).collect();
        assert_eq!((spoiled.len(), spoiled[0].id.as_str()), (1, "7"));
        let again = events.iter().find(|event| event.id == "8").unwrap();
        assert_eq!((again.push_id, again.actor_login.as_deref()), (Some(8), Some("jo")));
        assert_eq!(again.before.as_deref(), Some("1".repeat(40).as_str()));
    }

    async fn a_row_that_was_changed_meanwhile_is_left_alone(test: TestDatabase) {
        let kept = kept(test.db());
        kept.save(RecordKind::User, &words(USER).0).await;
        let record = extract::user(words(USER).0.to_string().as_bytes()).unwrap();
        let seen = kept.store.stored(RecordKind::User, &Key::Id(1_000)).await.unwrap().unwrap().updated_at;
        run(test.db(), &spoil::USERS).await;
        let mut columns = vec![grip_db::Column::Ints(vec![1_000]), grip_db::Column::Ints(vec![seen - 1])];
        columns.extend(field_sql::columns(&USER[1..], &[record.cells[1..].to_vec()]));
        columns.push(grip_db::Column::MaybeTexts(vec![None]));
        let rewriting = test.db().write_one(move |mut db| {
            Box::pin(async move { db.execute_rows(&field_sql::REDO_USERS, &columns, &[1.into()]).await })
        });
        assert_eq!(rewriting.await.unwrap(), 0);
    }

    async fn what_can_be_read_by_now_is_taken_in(test: TestDatabase) {
        let kept = kept(test.db());
        let mut batch = Batch::default();
        let why = extract::Malformed::NotAnObject;
        batch.reject(push(3).to_string().as_bytes(), &why);
        batch.reject(b"nonsense", &why);
        kept.store.accept(&kept.queue, "events", batch, LIVE).await.unwrap();
        begin(&kept, Reextraction::Rejected).await;
        assert!(step(&kept, Reextraction::Rejected).await);
        assert_eq!(kept.ids().await, ["3"]);
        assert!(kept.queue.find("push-event", "3").await.unwrap().is_some());
        let left = kept.store.recent_rejections(10).await.unwrap();
        assert_eq!((left.len(), left[0].bytes), (1, 8));
    }

    async fn a_delivery_that_can_be_read_by_now_is_taken_in_under_its_id(test: TestDatabase) {
        let kept = kept(test.db());
        let body = serde_json::json!({
            "ref": "refs/heads/main",
            "before": "1".repeat(40),
            "after": "ab".repeat(20),
            "repository": { "id": 5, "full_name": "acme/one" },
            "sender": { "id": 7, "login": "jo", "url": "https://api.github.com/users/jo" },
        });
        // As an older version kept it aside that could not read it.
        let mut batch = Batch::default();
        let rejected = crate::accept::Rejected {
            reason: "it is no JSON object".to_owned(),
            raw: body.to_string(),
            bytes: body.to_string().len() as i64,
            delivery_id: Some("d-1".to_owned()),
        };
        batch.rejected.insert("digest".to_owned(), rejected);
        kept.store.accept(&kept.queue, "webhook", batch, LIVE).await.unwrap();
        begin(&kept, Reextraction::Rejected).await;
        assert!(step(&kept, Reextraction::Rejected).await);
        assert_eq!(kept.ids().await, ["delivery d-1"]);
        assert!(kept.store.recent_rejections(10).await.unwrap().is_empty());
    }
}
