//! Faults of what a running node rests on: disk, repositories, database, Redis, other relays.

use super::faults;

const STOPPED: &str = "the node has stopped";
const NOT_OF_ONE: &str = "it is of no single event or repository";

faults! {
    disk_full: "a disk of the node is full",
        Log "less than min_free_bytes is free",
        Readyz "less than min_free_bytes is free",
        Status "full: pushes and events are refused below",
        Selftest "pushes and events are refused",
        - Explain: NOT_OF_ONE,
        => "make room, or lower min_free_bytes";
    pack_cut: "a pack is cut short",
        Log "it is cut short",
        Readyz "that it names is not here",
        Status "repositories: damaged: ",
        Selftest "the repository is not served (503)",
        Explain "that it names is not here",
        => "run `gripfast check --full --repair`";
    pack_lost: "a pack is lost",
        Log "repository is damaged; it is not served until it is whole again",
        Readyz "that it names is not here",
        Status "repositories: damaged: ",
        Selftest "the repository is not served (503)",
        Explain "that it names is not here",
        => "run `gripfast check --full --repair`";
    bit_flipped: "a bit of a pack has flipped",
        Log "repository is damaged; it is not served until it is whole again",
        Readyz "damaged: ",
        Status "repositories: damaged: ",
        Selftest "the repository is not served (503)",
        Explain "its git data is not: ",
        => "run `gripfast check --full --repair`";
    event_store_dead: "the event store is dead (`MDB_PANIC`)",
        Log "reason=the relay: the event store is dead after an error of the disk",
        - Readyz Status Selftest Explain: STOPPED,
        => "look at the disk, then start the node again";
    event_writer_ended: "the thread that writes events has ended",
        Log "reason=the relay: the thread that writes events has ended",
        - Readyz Status Selftest Explain: STOPPED,
        => "start the node again, and report the lines above";
    database_away: "the database server is away",
        Log "the database server is lost; tried again until it is back",
        Readyz "the database server cannot be reached",
        Status "database: the database server cannot be reached",
        Selftest "not ready: database: the database server cannot be reached",
        - Explain: NOT_OF_ONE,
        => "start it again, or correct database_url";
    redis_away: "Redis is away",
        Log "redis is disconnected: this instance uses a part of every limit",
        Readyz "Redis cannot be reached (",
        Status "redis: Redis cannot be reached (",
        Selftest "degraded: redis: Redis cannot be reached (",
        - Explain: NOT_OF_ONE,
        => "Start Redis, or correct redis_url";
    redis_password: "the password of Redis is wrong",
        Log "reason=\"authentication failed\"",
        Readyz "Redis cannot be reached (authentication failed",
        Status "redis: Redis cannot be reached (authentication failed",
        Selftest "degraded: redis: Redis cannot be reached (authentication failed",
        - Explain: NOT_OF_ONE,
        => "Start Redis, or correct redis_url";
    sync_off: "fetching is switched off while events wait for data",
        Log "sync is switched off: nothing is fetched from elsewhere",
        Status "sync is switched off (sync_enabled)",
        Explain "held",
        - Readyz Selftest: "the operator wants it so",
        => "sync_enabled is off";
    push_without_state: "a push that no signed state allows",
        Log "push refused",
        Explain "recent refusals",
        - Readyz Status Selftest: "a refusal is no fault of the node",
        => "Push the branches and tags that the signed state names";
    relay_away: "a relay that announcements list is away",
        Log "the connection was refused",
        Status "the connection was refused; nothing to do here if it comes back",
        - Readyz Selftest: "it is no fault of this node",
        - Explain: NOT_OF_ONE,
        => "it is dialled again by itself; else announce another relay";
    sync_stalled: "nothing is fetched although data has been due for long",
        Readyz "nothing is fetched, and the data of x has been due for",
        Status "sync: nothing is fetched, and the data of x has been due for",
        Selftest "degraded: sync: nothing is fetched, and the data of x has been due for",
        - Log: "what would write it does not run: `/readyz` and the alert GripfastDegraded find it",
        - Explain: "it says when the next attempt was due",
        => "`gripfast sync status` shows what is waited for";
    object_store_away: "the object store of a cluster is away",
        Log "the object store is away",
        Readyz "the object store cannot be reached: the connection was refused",
        Status "object_store: the object store cannot be reached: the connection was refused",
        Selftest "degraded: object_store: the object store cannot be reached: the connection was refused",
        - Explain: NOT_OF_ONE,
        => "Start it again, or correct cluster_packs";
}

mod stage {
    use std::{fs, path::PathBuf};

    use anyhow::{Context as _, Result, ensure};
    use grip_testkit::{
        Clock, LocalProject, Node, PostgresServer, Project, RedisServer, S3Server, until_ok,
    };

    use crate::{
        BINARY,
        operate::faults::{FAILURE, Staged},
        sync::scene::Scene,
    };

    pub(super) async fn disk_full() -> Result<Staged> {
        let settings = [("GRIPFAST_MIN_FREE_BYTES", "900000 GiB")];
        Ok(Staged::new(Node::start_with(BINARY, &settings).await?))
    }

    /// A node that serves one repository, stopped, and the pack of that repository.
    async fn stopped() -> Result<(Node, LocalProject, PathBuf)> {
        let mut node = Node::start(BINARY).await?;
        let project = LocalProject::new("tides")?;
        project.publish(&node, 5).await?;
        node.stop().await?;
        let packs = node.data_dir().join("git/.objects/tides.git/objects/pack");
        let packs = fs::read_dir(packs)?.collect::<Result<Vec<_>, _>>()?;
        let mut packs = packs.iter().map(fs::DirEntry::path);
        let pack = packs.find(|path| path.extension().is_some_and(|it| it == "pack"));
        Ok((node, project, pack.context("a pack")?))
    }

    async fn damaged(mut node: Node, project: &LocalProject) -> Result<Staged> {
        node.launch().await?;
        let subject = format!("{}/{}", project.owner.npub(), project.identifier);
        Ok(Staged::new(node).about(subject))
    }

    pub(super) async fn pack_cut() -> Result<Staged> {
        let (node, project, pack) = stopped().await?;
        make_writable(&pack)?;
        fs::File::options().write(true).open(&pack)?.set_len(20)?;
        damaged(node, &project).await
    }

    pub(super) async fn pack_lost() -> Result<Staged> {
        let (node, project, pack) = stopped().await?;
        fs::remove_file(&pack)?;
        fs::remove_file(pack.with_extension("idx"))?;
        damaged(node, &project).await
    }

    pub(super) async fn bit_flipped() -> Result<Staged> {
        let (node, project, pack) = stopped().await?;
        make_writable(&pack)?;
        let mut bytes = fs::read(&pack)?;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::write(&pack, bytes)?;
        let staged = damaged(node, &project).await?;
        // It shows to who reads every object.
        let check = staged.node.command(&["check", "--full"]).output().await?;
        ensure!(!check.status.success());
        Ok(staged)
    }

    fn make_writable(path: &std::path::Path) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        Ok(fs::set_permissions(
            path,
            fs::Permissions::from_mode(0o644),
        )?)
    }

    /// A node that stops itself at the first event it writes: its own profile, before it is ready.
    async fn stops_at(point: &str) -> Result<Staged> {
        let fault = format!("{point}!");
        let node = Node::prepare(BINARY, &[("GRIPFAST_FAULT", &fault)])?;
        let staged = Staged::ended(node, FAILURE).await?;
        let log = staged.node.log();
        ensure!(log.contains("component failed, stopping the node"), "{log}");
        Ok(staged)
    }

    pub(super) async fn event_store_dead() -> Result<Staged> {
        stops_at("relay.store").await
    }

    pub(super) async fn event_writer_ended() -> Result<Staged> {
        stops_at("relay.writer").await
    }

    pub(super) async fn database_away() -> Result<Staged> {
        let mut server = PostgresServer::start().await?;
        let node = Node::start_with(BINARY, &[("DATABASE_URL", &server.url())]).await?;
        server.kill();
        Ok(Staged::new(node))
    }

    pub(super) async fn redis_away() -> Result<Staged> {
        let mut server = RedisServer::start().await?;
        let node = Node::start_with(BINARY, &[("GRIPFAST_REDIS_URL", &server.url())]).await?;
        server.kill();
        Ok(Staged::new(node))
    }

    pub(super) async fn redis_password() -> Result<Staged> {
        let server = RedisServer::start_with_password("right").await?;
        let url = server.url().replace("right", "wrong");
        let node = Node::start_with(BINARY, &[("GRIPFAST_REDIS_URL", &url)]).await?;
        Ok(Staged::new(node).with(server))
    }

    pub(super) async fn sync_off() -> Result<Staged> {
        let (mut scene, remote) = Scene::with_remote(&[("GRIPFAST_SYNC_ENABLED", "false")]).await?;
        let state = scene.hold_remote(&remote).await?;
        Ok(Staged::new(scene.node).about(state.id.to_hex()))
    }

    pub(super) async fn push_without_state() -> Result<Staged> {
        let node = Node::start(BINARY).await?;
        let project = LocalProject::new("tides")?;
        project.announce(&node, 5).await?;
        project.tree.commit("more", "of it")?;
        let pushed = project.tree.push(&project.url(&node), &["main"]).await?;
        ensure!(!pushed.ok, "no state names it");
        let subject = format!("{}/{}", project.owner.npub(), project.identifier);
        Ok(Staged::new(node).about(subject))
    }

    pub(super) async fn relay_away() -> Result<Staged> {
        let mut scene = Scene::new().await?;
        let project = Project::new("tides");
        let relay = format!("ws://127.0.0.2:{}", scene.node.reserve_port()?);
        let tags = vec![
            grip_testkit::events::tag(["d", "tides"]),
            grip_testkit::events::tag(["clone", &project.url(&scene.node)]),
            grip_testkit::events::tag(["relays", &scene.node.relay_url(), &relay]),
        ];
        let announcement = project.owner.sign(30617, "", tags);
        scene
            .node
            .connect()
            .await?
            .publish_ok(&announcement)
            .await?;
        until_ok("the list of relays names cause and next step", async || {
            let shown = scene.node.run(&["sync", "status"]).await?;
            let says = |words| shown.contains(words);
            let named = says("the connection was refused; next attempt")
                && says("next step: nothing to do here if it comes back");
            Ok(named.then_some(()))
        })
        .await?;
        Ok(Staged::new(scene.node))
    }

    pub(super) async fn sync_stalled() -> Result<Staged> {
        let dir = tempfile::tempdir()?;
        let clock = Clock::new(dir.path())?;
        let mut settings = clock.settings()?;
        settings.push(("GRIPFAST_FAULT".to_owned(), "sync.attempts!".to_owned()));
        let settings: Vec<_> = settings
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let (mut scene, remote) = Scene::with_remote(&settings).await?;
        scene.hold_remote(&remote).await?;
        clock.set_off_by(15 * 60)?;
        Ok(Staged::new(scene.node).with(remote).with(dir))
    }

    pub(super) async fn object_store_away() -> Result<Staged> {
        let server = PostgresServer::start().await?;
        let store = S3Server::start().await?;
        let mut node = Node::prepare(BINARY, &[("DATABASE_URL", &server.url())])?;
        for (name, value) in store.env() {
            node.set_env(name, &value);
        }
        node.set_env("GRIPFAST_CLUSTER_PACKS", &store.place());
        node.launch().await?;
        drop(store);
        Ok(Staged::new(node).with(server))
    }
}
