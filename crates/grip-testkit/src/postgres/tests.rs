use std::{
    env,
    fs::Permissions,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Stdio},
    thread,
};

use tempfile::TempDir;

use super::*;
use crate::{process::family, wait::until};

/// Tells a copy of this test binary to hold a server and to write its URL into this file.
const HOLD: &str = "GRIP_TESTKIT_HOLD_POSTGRES";

fn psql(server: &PostgresServer, statement: &str) -> Child {
    let mut command = server.account.command(server.programs.psql());
    command
        .args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"])
        .args([&server.url(), "--command", statement])
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn ask(server: &PostgresServer, statement: &str) -> String {
    let output = psql(server, statement).wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn shared_memory(server: &PostgresServer) -> Option<String> {
    let lock = std::fs::read_to_string(server.data().join("postmaster.pid")).ok()?;
    let id = lock.lines().nth(6)?.split_whitespace().nth(1)?.to_owned();
    let all = std::fs::read_to_string("/proc/sysvipc/shm").ok()?;
    let is_there = all
        .lines()
        .any(|line| line.split_whitespace().nth(1) == Some(&id));
    is_there.then_some(id)
}

#[tokio::test]
async fn a_server_starts_empty_and_promises_what_was_asked_for() {
    let quick = PostgresServer::start().await.unwrap();
    assert_eq!(ask(&quick, "SELECT count(*) FROM pg_database"), "2");
    assert_eq!(ask(&quick, "SHOW max_connections"), "200");
    assert_eq!(ask(&quick, "SHOW fsync"), "off");
    ask(&quick, "CREATE DATABASE other");
    let careful = PostgresServer::durable().await.unwrap();
    assert_ne!(careful.port(), quick.port());
    for promise in ["fsync", "full_page_writes", "synchronous_commit"] {
        assert_eq!(ask(&careful, &format!("SHOW {promise}")), "on");
    }
    assert_eq!(ask(&careful, "SELECT count(*) FROM pg_database"), "2");
}

#[tokio::test]
async fn a_durable_server_keeps_what_it_answered_through_a_kill() {
    let mut server = PostgresServer::durable().await.unwrap();
    ask(&server, "CREATE TABLE t (n int)");
    ask(&server, "INSERT INTO t VALUES (7)");
    let (family, url) = (server.family().unwrap(), server.url());
    let children = family.descendants();
    assert!(children.len() > 2, "{children:?}");
    assert!(shared_memory(&server).is_some());
    server.kill();
    assert_eq!(shared_memory(&server), None);
    for child in children {
        assert!(matches!(family::stat(child), None | Some(('Z', _))));
    }
    assert!(server.family().is_err() && !answers(server.port()).await);
    server.launch().await.unwrap();
    assert_eq!(server.url(), url);
    assert_eq!(ask(&server, "SELECT n FROM t"), "7");
    assert!(server.log().contains("recovery"), "{}", server.log());
}

#[tokio::test]
async fn a_server_that_was_stopped_goes_on_where_it_was() {
    let mut server = PostgresServer::start().await.unwrap();
    ask(&server, "CREATE TABLE t AS SELECT 7 AS n");
    let mut guest = psql(&server, "SELECT pg_sleep(1000)");
    until("the guest is served", || {
        let served = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%sleep(1000)'";
        std::future::ready((ask(&server, served) == "1").then_some(()))
    })
    .await
    .unwrap();
    server.freeze().unwrap();
    assert!(server.stop().await.unwrap().success(), "{}", server.log());
    assert!(!guest.wait().unwrap().success());
    assert!(server.stop().await.is_err());
    assert_eq!(shared_memory(&server), None);
    server.launch().await.unwrap();
    assert!(server.launch().await.is_err(), "it runs already");
    assert_eq!(ask(&server, "SELECT n FROM t"), "7");
    server.restart().await.unwrap();
    assert_eq!(ask(&server, "SELECT 1"), "1");
}

#[tokio::test]
async fn a_frozen_server_stands_still_with_all_its_processes_until_it_is_thawed() {
    let server = PostgresServer::start().await.unwrap();
    let family = server.family().unwrap();
    server.freeze().unwrap();
    let still = || {
        let children = family.descendants();
        let still = |pid: &rustix::process::Pid| matches!(family::stat(*pid), Some(('T' | 'Z', _)));
        let all = !children.is_empty() && children.iter().all(still);
        std::future::ready(all.then_some(()))
    };
    until("all stand still", still).await.unwrap();
    let guest = psql(&server, "SELECT 7");
    server.thaw().unwrap();
    let answer = guest.wait_with_output().unwrap();
    assert_eq!(answer.stdout, b"7\n");
}

#[tokio::test]
async fn a_server_lives_longer_than_the_thread_that_asked_for_it() {
    let asked = thread::spawn(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(PostgresServer::start()).unwrap()
    });
    let mut server = asked.join().unwrap();
    assert_eq!(ask(&server, "SELECT 1"), "1");
    assert!(server.process.is_running());
}

#[tokio::test]
async fn a_server_ends_with_a_process_that_is_killed_even_while_it_is_frozen() {
    if let Some(file) = env::var_os(HOLD) {
        return hold(Path::new(&file)).await;
    }
    for then in ["run", "freeze"] {
        // What the other process leaves behind lies in here, and goes with it.
        let dir = TempDir::new().unwrap();
        std::fs::set_permissions(dir.path(), Permissions::from_mode(0o777)).unwrap();
        let note = dir.path().join(then);
        let mut holder = copy_of_this_test(&note);
        let said = until("the other process has a server", || {
            std::future::ready(std::fs::read_to_string(&note).ok())
        });
        let (port, pid) = {
            let said = said.await.unwrap();
            let (port, pid) = said.split_once(' ').unwrap();
            (port.parse().unwrap(), pid.parse().unwrap())
        };
        let first = rustix::process::Pid::from_raw(pid).unwrap();
        let family = Family::at(first);
        let mut processes = family.descendants();
        processes.push(first);
        assert!(then == "freeze" || answers(port).await);
        holder.kill().unwrap();
        holder.wait().unwrap();
        until("all processes of the server are gone", || {
            let gone =
                |pid: &rustix::process::Pid| matches!(family::stat(*pid), None | Some(('Z', _)));
            std::future::ready(processes.iter().all(gone).then_some(()))
        })
        .await
        .unwrap();
        assert!(!answers(port).await);
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 2, "its note and its data");
    }
}

#[expect(clippy::disallowed_methods, reason = "a process to be killed")]
fn copy_of_this_test(note: &Path) -> Child {
    let name = thread::current().name().unwrap().to_owned();
    std::process::Command::new(env::current_exe().unwrap())
        .args(["--exact", &name])
        .env(HOLD, note)
        .env("TMPDIR", note.parent().unwrap())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Has a server until the process is killed.
async fn hold(note: &Path) {
    let server = PostgresServer::start().await.unwrap();
    let child = server.process.child.as_ref().unwrap();
    let said = format!("{} {}", server.port(), child.id());
    if note.ends_with("freeze") {
        server.freeze().unwrap();
    }
    let half = note.with_extension("half");
    std::fs::write(&half, said).unwrap();
    std::fs::rename(half, note).unwrap();
    std::future::pending::<()>().await;
}

#[test]
fn those_who_make_the_template_at_the_same_time_leave_one_whole_file() {
    let cache = TempDir::new().unwrap();
    let (programs, account) = (Programs::find().unwrap(), Account::pick().unwrap());
    let make = || template::find_or_make(cache.path(), &programs, &account).unwrap();
    let made: Vec<PathBuf> = thread::scope(|scope| {
        let makers: Vec<_> = (0..3).map(|_| scope.spawn(make)).collect();
        makers
            .into_iter()
            .map(|maker| maker.join().unwrap())
            .collect()
    });
    assert!(made.iter().all(|path| *path == made[0]));
    assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1);
    let dir = account.temp_dir().unwrap();
    template::unpack(&made[0], &dir.path().join("data"), &account).unwrap();
    assert!(dir.path().join("data/PG_VERSION").is_file());
    let before = std::fs::metadata(&made[0]).unwrap().modified().unwrap();
    assert_eq!(make(), made[0]);
    let after = std::fs::metadata(&made[0]).unwrap().modified().unwrap();
    assert_eq!(after, before, "it is not made twice");
}
