use grip_testkit::{assert_matches, until};

use super::*;

const HOLDERS: &str = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'";

#[tokio::test]
async fn a_name_has_one_process_at_a_time() {
    let server = postgres().await;
    let at = Server::new(server.url(), "alpha");
    let first = Db::connect(&at).await.unwrap();
    let (error, text) = {
        let second = Db::connect(&at).await.err().expect("the name is taken");
        let OpenError::Server(error) = second else {
            panic!("{second:?}");
        };
        let text = error.to_string();
        (error, text)
    };
    assert_matches!(error, ServerError::NameTaken { .. }, "{text}");
    assert!(
        text.contains("alpha") && text.contains("node_name"),
        "{text}"
    );
    let other = Db::connect(&Server::new(server.url(), "beta"))
        .await
        .unwrap();
    first.close().await;
    let again = Db::connect(&at).await.unwrap();
    again.close().await;
    other.close().await;
}

#[tokio::test]
async fn a_name_whose_session_was_ended_is_taken_again() {
    let server = postgres().await;
    let at = Server::new(server.url(), "alpha");
    let first = Db::connect(&at).await.unwrap();
    admin(&server.url(), HOLDERS).await;
    until("the name is held again", || async {
        let held = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";
        let mut link = PgConnection::connect(&server.url()).await.unwrap();
        let held: i64 = sqlx::query_scalar(held).fetch_one(&mut link).await.unwrap();
        (held == 1).then_some(())
    })
    .await
    .unwrap();
    first.put(&["a"]).await.unwrap();
    assert!(Db::connect(&at).await.is_err(), "the name is still taken");
}

#[tokio::test]
async fn who_lost_its_name_to_another_writes_no_more() {
    let server = postgres().await;
    let at = Server::new(server.url(), "alpha");
    let first = Db::connect(&at).await.unwrap();
    // Another process is quicker than the first, once its session has gone.
    let usurper = until("the name is free for a moment", || async {
        admin(&server.url(), HOLDERS).await;
        let mut link = PgConnection::connect(&server.url()).await.unwrap();
        let take = "SELECT pg_try_advisory_lock(hashtextextended('gripfast node alpha', 0))";
        let took: bool = sqlx::query_scalar(take).fetch_one(&mut link).await.unwrap();
        took.then_some(link)
    });
    let _usurper = usurper.await.unwrap();
    grip_testkit::within("the loss is noticed", first.name_taken())
        .await
        .unwrap();
    let refused = first.put(&["a"]).await;
    assert_matches!(refused, Err(DbError::NameTaken));
    assert_matches!(first.keys().await, Err(DbError::NameTaken));
    assert!(first.outage().borrow().is_some());
}
