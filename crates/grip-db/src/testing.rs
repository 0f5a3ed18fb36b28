//! A database for one test.

use std::path::PathBuf;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tempfile::TempDir;

use crate::{Db, Engine, Location, Server, Statement, Value};

/// A fresh database that goes with the test: a file in a directory of its own, or a database of
/// its own on the test's server.
pub struct TestDatabase {
    _directory: Option<TempDir>,
    location: Location,
    db: Db,
}

impl TestDatabase {
    /// Panics if it cannot be made, as all of these: a test has nothing better to do.
    pub async fn sqlite() -> Self {
        let directory = TempDir::new().expect("a test needs a temporary directory");
        let location = Location::File(directory.path().join("gripfast.db"));
        Self::at(location, Some(directory)).await
    }

    /// On the server at `url`, which says any database of it.
    pub async fn postgres(url: &str) -> Self {
        let name = format!("test_{:016x}", rand::random::<u64>());
        let mut admin = PgConnection::connect(url)
            .await
            .expect("the server answers");
        sqlx::raw_sql(AssertSqlSafe(format!("CREATE DATABASE {name}")))
            .execute(&mut admin)
            .await
            .expect("a test may make a database");
        let (server, _) = url.rsplit_once('/').expect("the URL names a database");
        let server = Server::new(format!("{server}/{name}"), "test");
        Self::at(Location::Server(server), None).await
    }

    async fn at(location: Location, directory: Option<TempDir>) -> Self {
        let db = Db::open_at(&location).await;
        Self {
            _directory: directory,
            db: db.expect("a fresh database opens"),
            location,
        }
    }

    pub fn db(&self) -> &Db {
        &self.db
    }

    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The file; panics where there is none.
    pub fn path(&self) -> PathBuf {
        match &self.location {
            Location::File(path) => path.clone(),
            Location::Server(_) => panic!("a server's database is no file"),
        }
    }

    /// The same database as another instance sees it.
    pub async fn another(&self, node: &str) -> Db {
        let location = match self.location.clone() {
            Location::Server(server) => Location::Server(Server {
                node: node.to_owned(),
                ..server
            }),
            file => file,
        };
        let db = Db::open_at(&location).await;
        db.expect("a database opens for another instance")
    }

    /// Closes it and opens it again, as the next start of the node would.
    pub async fn reopen(self) -> Self {
        self.db.close().await;
        let db = Db::open_at(&self.location).await;
        Self {
            db: db.expect("a closed database opens again"),
            ..self
        }
    }
}

/// Writes tests that run once on each engine, as `<name>::sqlite` and `<name>::postgres`. The
/// crate needs `grip-testkit` for the server.
///
/// ```ignore
/// grip_db::on_both_engines! {
///     async fn what_was_written_is_read(test: TestDatabase) {
///         assert!(test.db().writer_stats().failed_total == 0);
///     }
/// }
/// ```
#[macro_export]
macro_rules! on_both_engines {
    ($(async fn $name:ident($test:ident: TestDatabase) $body:block)+) => {$(
        mod $name {
            #[allow(unused_imports, reason = "a body may need nothing from around it")]
            use super::*;

            async fn body($test: $crate::TestDatabase) $body

            #[tokio::test]
            async fn sqlite() {
                body($crate::TestDatabase::sqlite().await).await;
            }

            #[tokio::test]
            async fn postgres() {
                let server = grip_testkit::PostgresServer::start().await.unwrap();
                body($crate::TestDatabase::postgres(&server.url()).await).await;
            }
        }
    )+};
}

/// The plan of a statement, as the engine explains it.
pub async fn plan(db: &Db, statement: &Statement, values: &[Value]) -> String {
    let text = statement.text(db.engine());
    let explain = |text: String| &*Box::leak(Box::new(Statement::new("EXPLAIN", text.leak())));
    let rows: Vec<String> = match db.engine() {
        Engine::Sqlite => {
            let explain = explain(format!("EXPLAIN QUERY PLAN {text}"));
            let rows: Vec<(i64, i64, i64, String)> = db
                .fetch_all(explain, values)
                .await
                .expect("the plan is told");
            rows.into_iter().map(|row| row.3).collect()
        }
        Engine::Postgres => {
            let explain = explain(format!("EXPLAIN {text}"));
            let rows: Vec<(String,)> = db
                .fetch_all(explain, values)
                .await
                .expect("the plan is told");
            rows.into_iter().map(|row| row.0).collect()
        }
    };
    rows.join("\n")
}

/// Prepares every statement on the engine of `db`, and names the first that it refuses.
pub async fn prepare_all(db: &Db, statements: &[&'static Statement]) -> Result<(), String> {
    for statement in statements {
        let prepared = db.prepare(statement).await;
        prepared.map_err(|error| format!("{}: {error:?}", statement.name))?;
    }
    Ok(())
}
