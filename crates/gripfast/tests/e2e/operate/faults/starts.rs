//! Faults that are there when a node starts: its last line names what keeps it from starting.

use super::faults;

const ENDED: &str = "no node runs";

faults! {
    port_taken: "another program listens on `bind_address`",
        Log "is in use by another program",
        - Readyz Status Selftest Explain: ENDED,
        => "choose another address with --bind-address";
    foreign_address: "`bind_address` is of another machine",
        Log "is no address of this machine",
        - Readyz Status Selftest Explain: ENDED,
        => "choose another address with --bind-address";
    directory_taken: "another node uses the data directory",
        Log "is in use by another gripfast (process ",
        - Readyz Status Selftest Explain: ENDED,
        => "stop that one, or choose another directory with --data-dir";
    directory_not_writable: "the data directory cannot be written",
        Log "cannot write to the directory",
        - Readyz Status Selftest Explain: ENDED,
        => "give it to the user of the service, or choose another with --data-dir";
    unknown_setting: "a setting is misspelled in the configuration file",
        Log "gripfast.toml:2: max_conections is no setting of gripfast",
        - Readyz Status Selftest Explain: "the node runs as if the line were not there",
        => "did you mean max_connections?";
    wrong_value: "a setting has a value that it cannot have",
        Log "GRIPFAST_MAX_PACK_BYTES",
        - Readyz Status Selftest Explain: ENDED,
        => "is no size such as `500 MB`, `2 GiB` or a number of bytes";
    git_missing: "there is no git",
        Log "cannot run /no/such/git",
        - Readyz Status Selftest Explain: ENDED,
        => "install git, or name it with git_program";
    git_too_old: "git is too old",
        Log "git 2.20 is too old, 2.37 is needed",
        - Readyz Status Selftest Explain: ENDED,
        => "install a newer one, or name it with git_program";
    restore_unfinished: "a restore was interrupted",
        Log "did not end",
        - Readyz Status Selftest Explain: ENDED,
        => "run `gripfast restore` again";
    database_damaged: "the embedded database is damaged",
        Log "is damaged or is no SQLite database",
        - Readyz Status Selftest Explain: ENDED,
        => "restore it from a backup, or move it away to begin with an empty one";
    event_store_damaged: "the event store is damaged",
        Log "the event store is damaged or is none",
        - Readyz Status Selftest Explain: ENDED,
        => "restore it from a backup, or move it away to begin with an empty one";
    key_damaged: "the key of the service is damaged",
        Log "cannot use the key of this service in",
        - Readyz Status Selftest Explain: ENDED,
        => "restore it from a backup";
    database_server_away: "the database server does not run when the node starts",
        Log "cannot reach the database server 127.0.0.1:",
        - Readyz Status Selftest Explain: ENDED,
        => "is it running, and are its host and port right?";
    database_missing: "the database server has no such database",
        Log "has no such database",
        - Readyz Status Selftest Explain: ENDED,
        => "create it with createdb, or name another one";
    object_store_away: "the object store of a cluster cannot be reached when the node starts",
        Log "the object store cannot be reached: the connection was refused",
        - Readyz Status Selftest Explain: ENDED,
        => "cannot use cluster_packs (s3://";
    redis_url_wrong: "`redis_url` is no URL of Redis",
        Log "redis_url",
        - Readyz Status Selftest Explain: ENDED,
        => "redis://";
}

mod stage {
    use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _};

    use anyhow::Result;
    use grip_testkit::{Node, PostgresServer, ReservedPort};

    use crate::{
        BINARY,
        operate::faults::{FAILURE, Staged, USAGE},
    };

    async fn ends_with(env: &[(&str, &str)], code: i32) -> Result<Staged> {
        Staged::ended(Node::prepare(BINARY, env)?, code).await
    }

    /// A node that ran and was stopped; `damage` is done to its data directory.
    async fn ends_after(damage: impl FnOnce(&std::path::Path) -> Result<()>) -> Result<Staged> {
        let mut node = Node::start(BINARY).await?;
        node.stop().await?;
        damage(&node.data_dir())?;
        Staged::ended(node, FAILURE).await
    }

    pub(super) async fn port_taken() -> Result<Staged> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        ends_with(&[("NGIT_BIND_ADDRESS", &address)], FAILURE).await
    }

    pub(super) async fn foreign_address() -> Result<Staged> {
        ends_with(&[("NGIT_BIND_ADDRESS", "192.0.2.1:7334")], FAILURE).await
    }

    pub(super) async fn directory_taken() -> Result<Staged> {
        let first = Node::start(BINARY).await?;
        let data_dir = first.data_dir().to_string_lossy().into_owned();
        ends_with(&[("GRIPFAST_DATA_DIR", &data_dir)], FAILURE).await
    }

    pub(super) async fn directory_not_writable() -> Result<Staged> {
        let node = Node::prepare(BINARY, &[])?;
        fs::write(node.data_dir(), "a file in its place")?;
        Staged::ended(node, FAILURE).await
    }

    pub(super) async fn unknown_setting() -> Result<Staged> {
        let mut node = Node::prepare(BINARY, &[])?;
        let file = node.work_dir().join("gripfast.toml");
        fs::write(file, "# limits\nmax_conections = 5\n")?;
        // It is only warned of: an older version may not know a setting of a newer one.
        node.launch().await?;
        Ok(Staged::new(node))
    }

    pub(super) async fn wrong_value() -> Result<Staged> {
        ends_with(&[("GRIPFAST_MAX_PACK_BYTES", "much")], USAGE).await
    }

    pub(super) async fn git_missing() -> Result<Staged> {
        ends_with(&[("GRIPFAST_GIT_PROGRAM", "/no/such/git")], FAILURE).await
    }

    pub(super) async fn git_too_old() -> Result<Staged> {
        let mut node = Node::prepare(BINARY, &[])?;
        let git = node.work_dir().join("old-git");
        fs::write(&git, "#!/bin/sh\necho git version 2.20.1\n")?;
        fs::set_permissions(&git, fs::Permissions::from_mode(0o755))?;
        node.set_env("GRIPFAST_GIT_PROGRAM", &git.to_string_lossy());
        Staged::ended(node, FAILURE).await
    }

    pub(super) async fn restore_unfinished() -> Result<Staged> {
        ends_after(|data_dir| Ok(fs::write(data_dir.join("restoring"), "")?)).await
    }

    pub(super) async fn database_damaged() -> Result<Staged> {
        ends_after(|data_dir| {
            for left in ["gripfast.sqlite-wal", "gripfast.sqlite-shm"] {
                let _ = fs::remove_file(data_dir.join(left));
            }
            Ok(fs::write(data_dir.join("gripfast.sqlite"), [7; 8192])?)
        })
        .await
    }

    pub(super) async fn event_store_damaged() -> Result<Staged> {
        ends_after(|data_dir| {
            Ok(fs::write(
                data_dir.join("relay/events/data.mdb"),
                [7; 16384],
            )?)
        })
        .await
    }

    pub(super) async fn key_damaged() -> Result<Staged> {
        ends_after(|data_dir| Ok(fs::write(data_dir.join("relay.key"), "hello\n")?)).await
    }

    pub(super) async fn database_server_away() -> Result<Staged> {
        let port = ReservedPort::new()?;
        let url = format!("postgres://gripfast@127.0.0.1:{}/gripfast", port.number());
        ends_with(&[("DATABASE_URL", &url)], FAILURE).await
    }

    pub(super) async fn database_missing() -> Result<Staged> {
        let server = PostgresServer::start().await?;
        let url = server.url().replace("/postgres", "/nosuch");
        ends_with(&[("DATABASE_URL", &url)], FAILURE).await
    }

    pub(super) async fn object_store_away() -> Result<Staged> {
        let (server, port) = (PostgresServer::start().await?, ReservedPort::new()?);
        let endpoint = format!("http://127.0.0.1:{}", port.number());
        let settings = [
            ("DATABASE_URL", server.url()),
            ("GRIPFAST_CLUSTER_PACKS", "s3://gripfast/packs".to_owned()),
            ("AWS_ENDPOINT_URL", endpoint),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", "tide".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "harbour".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ];
        let settings: Vec<_> = settings
            .iter()
            .map(|(key, value)| (*key, value.as_str()))
            .collect();
        ends_with(&settings, FAILURE).await
    }

    pub(super) async fn redis_url_wrong() -> Result<Staged> {
        ends_with(&[("GRIPFAST_REDIS_URL", "localhost:6379")], USAGE).await
    }
}
