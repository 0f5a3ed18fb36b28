use std::error::Error;

use grip_testkit::PostgresServer;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::*;
use crate::TestDatabase;

mod fences;
mod names;
mod opening;
mod outages;
mod rows;
mod tls;

/// Short enough for a test to wait for.
const SHORT: Duration = Duration::from_millis(1500);

async fn postgres() -> PostgresServer {
    PostgresServer::start().await.unwrap()
}

/// Runs statements as somebody who may do everything.
async fn admin(url: &str, text: impl Into<String>) {
    let mut link = PgConnection::connect(url).await.unwrap();
    let text = AssertSqlSafe(text.into());
    sqlx::raw_sql(text).execute(&mut link).await.unwrap();
}

/// The same server with this part of its URL after the protocol.
fn url(server: &PostgresServer, user: &str, database: &str) -> String {
    format!("postgres://{user}@127.0.0.1:{}/{database}", server.port())
}

async fn refused(url: &str) -> (ServerError, String) {
    let server = Server {
        time_limit: SHORT,
        ..Server::new(url, "test")
    };
    let shown = format!("{server:?}");
    let error = match Db::connect(&server).await {
        Err(OpenError::Server(error)) => error,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it opened"),
    };
    let text = format!("{error:?} {shown} {}", chain(&error));
    (error, text)
}

fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
