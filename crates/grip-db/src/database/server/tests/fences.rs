use grip_testkit::assert_matches;

use super::*;
use crate::{Value, prepare_all};

const NEW_EPOCH: &str = "UPDATE clusters SET epoch = epoch + 1 WHERE name = 'harbour'";

crate::statements! {
    mod sql {
        MAKE = "INSERT INTO clusters (name, epoch, leader, address, expires_at, seq, appended) \
                VALUES ('harbour', 1, 'a', '127.0.0.1:1', 0, 0, 0)";
        COUNT = "UPDATE clusters SET seq = seq + 1 WHERE name = $1";
    }
}

/// A process that was paused writes nothing once another leads, in whichever way it writes.
#[tokio::test]
async fn what_a_former_leader_writes_does_not_count() {
    let server = postgres().await;
    let other = Db::connect(&Server::new(server.url(), "other"))
        .await
        .unwrap();
    prepare_all(&other, fence::sql::ALL).await.unwrap();
    other.execute(&sql::MAKE, &[]).await.unwrap();
    let fence = Fence {
        cluster: "harbour".to_owned(),
        epoch: 1,
    };
    let leading = Server {
        fence: Some(fence),
        ..Server::new(server.url(), "harbour")
    };
    let leader = Db::connect(&leading).await.unwrap();
    let name = || [Value::from("harbour")];
    let in_order = || {
        leader.write_in_order(|mut db| {
            Box::pin(async move { db.execute(&sql::COUNT, &["harbour".into()]).await })
        })
    };
    assert_eq!(leader.execute(&sql::COUNT, &name()).await.unwrap(), 1);
    assert_eq!(in_order().await.unwrap(), 1);
    admin(&server.url(), NEW_EPOCH).await;
    assert_matches!(
        leader.execute(&sql::COUNT, &name()).await,
        Err(DbError::NameTaken)
    );
    assert_matches!(in_order().await, Err(DbError::NameTaken));
    assert_eq!(other.execute(&sql::COUNT, &name()).await.unwrap(), 1);
    leader.close().await;
    other.close().await;
}
