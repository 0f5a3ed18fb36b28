//! Addresses that are never asked because an event names them, and what no request carries (G02-52, G02-54,
//! G02-60).

use std::{
    collections::BTreeSet,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use anyhow::{Result, ensure};
use grip_testkit::{
    FakeRelay, LocalProject, Project, RemoteHost, RemoteProject,
    events::tag,
    remote::{Behaviour, Status},
    until_ok, until_true,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinSet,
};

use super::{
    hostile::host_with_all,
    scene::{node_with, publish, relays, until_relay},
};
use crate::sync::scene::Scene;

/// A server that counts connections and answers each with a text.
struct Answering {
    authority: String,
    count: Arc<AtomicUsize>,
    _task: JoinSet<()>,
}

impl Answering {
    async fn start(address: &str, text: String) -> Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let authority = listener.local_addr()?.to_string();
        let count: Arc<AtomicUsize> = Arc::default();
        let counting = Arc::clone(&count);
        let mut task = JoinSet::new();
        task.spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counting.fetch_add(1, Ordering::Relaxed);
                // Who leaves in the middle is no failure of the test.
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(text.as_bytes()).await;
            }
        });
        Ok(Self {
            authority,
            count,
            _task: task,
        })
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn g02_52_names_of_one_house_credentials_and_other_schemes_are_no_relays() -> Result<()> {
    let node = node_with(&[("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "false")]).await?;
    let project = LocalProject::new("tides")?;
    let inner = [
        "localhost",
        "printer",
        "printer.local",
        "a.localdomain",
        "a.internal",
        "a.home.arpa",
        "a.onion",
        "a.test",
        "a.invalid",
    ];
    let mut urls: Vec<String> = inner.iter().map(|name| format!("ws://{name}:7")).collect();
    urls.extend(
        [
            "wss://user@relay.example",
            "wss://user:secret@relay.example",
            "https://relay.example",
            "ftp://relay.example",
            "relay.example",
            "wss://RELAY.example/",
        ]
        .map(str::to_owned),
    );
    host_with_all(&project, &node, &urls).await?;
    until_relay(
        &node,
        "the one that is an address of a relay is followed",
        |relay| relay["relay"] == "wss://relay.example",
    )
    .await?;
    let followed = relays(&node).await?;
    ensure!(followed.len() == 1, "{followed:?}");
    Ok(())
}

/// Where private addresses may be asked, too.
#[tokio::test]
async fn g02_52_no_data_is_fetched_but_by_http_and_none_with_credentials() -> Result<()> {
    let mut scene = Scene::new().await?;
    let local = LocalProject::new("x")?;
    let remote = RemoteProject::start("127.0.3.41", "x.git", local).await?;
    let daemon = Answering::start("127.0.3.42", String::new()).await?;
    let path = remote.host.path("x.git").display().to_string();
    let marker = scene.node.work_dir().join("ran");
    let with_credentials = remote.url.replace("http://", "http://user:secret@");
    let urls = [
        format!("git://{}/x.git", daemon.authority),
        format!("ssh://git@{}/x.git", daemon.authority),
        format!("git@{}:x.git", daemon.authority),
        format!("file://{path}"),
        path,
        format!("ext::touch {}", marker.display()),
        with_credentials,
    ];
    scene.announce(&remote, &urls).await?;
    let state = scene.hold_state(&remote, &remote.tip).await?;
    scene.sync_now(&remote).await?;
    // A repository that comes later is fetched by then.
    let other = Project::new("y");
    let url = remote.host.alias("x.git", "y.git")?;
    scene.announce(&other, &[url]).await?;
    let fetched = scene.hold_state(&other, &remote.tip).await?;
    scene.released(&fetched).await?;
    ensure!(!scene.serves(&state).await?);
    ensure!(remote.host.requests_for("x.git").is_empty());
    ensure!(daemon.count() == 0 && !marker.exists());
    Ok(())
}

/// What the user who runs the node has set up for git and for other programs.
fn set_up_home(home: &Path, proxy: &str, host: &str) -> Result<()> {
    let marker = home.join("ran");
    let script = format!("#!/bin/sh\ntouch {}\n", marker.display());
    let hooks = home.join("hooks");
    std::fs::create_dir_all(&hooks)?;
    for hook in ["reference-transaction", "post-update", "helper"] {
        let file = hooks.join(hook);
        std::fs::write(&file, &script)?;
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, executable)?;
    }
    let netrc = format!("machine {host} login ada password secret\n");
    std::fs::write(home.join(".netrc"), netrc)?;
    let helper = hooks.join("helper");
    let config = format!(
        "[core]\n\thooksPath = {hooks}\n[credential]\n\thelper = {helper}\n[http]\n\tproxy = {proxy}\n\
         \textraHeader = Authorization: Basic c2VjcmV0\n[fetch]\n\trecurseSubmodules = true\n",
        hooks = hooks.display(),
        helper = helper.display(),
    );
    std::fs::write(home.join(".gitconfig"), config)?;
    Ok(())
}

/// Neither the proxies nor the passwords, cookies and hooks of whoever runs the node are used for what events
/// name.
#[tokio::test]
async fn g02_54_60_no_proxy_no_credentials_no_cookies_and_no_hooks_of_the_user_are_used()
-> Result<()> {
    let proxy =
        Answering::start("127.0.3.43", "HTTP/1.1 502 Bad Gateway\r\n\r\n".to_owned()).await?;
    let proxy_url = format!("http://{}", proxy.authority);
    let local = LocalProject::new("x")?;
    let remote = RemoteProject::start("127.0.3.44", "x.git", local).await?;
    let challenge = Behaviour::Status(Status {
        code: 401,
        headers: vec![
            ("www-authenticate".into(), "Basic realm=\"x\"".into()),
            ("set-cookie".into(), "session=1; Path=/".into()),
        ],
    });
    remote.host.script("x.git", [challenge, Behaviour::Serve]);
    let home = tempfile::TempDir::new()?;
    set_up_home(home.path(), &proxy_url, "127.0.3.44")?;
    let home_path = home.path().display().to_string();
    let mut env = vec![
        ("HOME", home_path.as_str()),
        ("XDG_CONFIG_HOME", &home_path),
    ];
    for name in [
        "http_proxy",
        "HTTP_PROXY",
        "https_proxy",
        "HTTPS_PROXY",
        "all_proxy",
        "ALL_PROXY",
    ] {
        env.push((name, &proxy_url));
    }
    let mut scene = Scene::with(&env).await?;
    let relay = FakeRelay::with_events("127.0.3.45", Vec::new()).await?;
    let tags = vec![
        tag(["d", "x"]),
        tag([
            "clone".to_owned(),
            remote.project.url(&scene.node),
            remote.url.clone(),
        ]),
        tag(["relays".to_owned(), scene.node.relay_url(), relay.url()]),
    ];
    publish(&scene.node, &remote.owner.sign(30617, "", tags)).await?;
    let state = scene.hold_state(&remote, &remote.tip).await?;
    scene.has_tried(&state, 1).await?;
    scene.sync_now(&remote).await?;
    scene.released(&state).await?;
    until_true("the relay is followed", || !relay.heard().is_empty()).await?;
    let requests = remote.host.requests();
    ensure!(requests.len() > 1, "{requests:?}");
    for request in &requests {
        for header in ["authorization", "proxy-authorization", "cookie", "referer"] {
            ensure!(
                !request.headers.contains_key(header),
                "{header}: {request:?}"
            );
        }
    }
    ensure!(proxy.count() == 0, "the proxy was asked");
    ensure!(
        !home.path().join("ran").exists(),
        "a program of the user ran"
    );
    // Nothing of a fetch by git itself is left: neither its head nor what collects garbage.
    let repository = remote.directory(&scene.node);
    for file in ["FETCH_HEAD", "gc.pid", "gc.log", "modules", "shallow"] {
        ensure!(!repository.join(file).exists(), "{file}");
    }
    scene.is_clean(&remote).await
}

/// Neither for what a relay says of itself nor for its websocket; of git data the redirect is judged as the
/// first address was.
#[tokio::test]
async fn g02_54_no_relay_is_followed_to_where_it_sends_us() -> Result<()> {
    let elsewhere = FakeRelay::with_events("127.0.3.46", Vec::new()).await?;
    let to = elsewhere.url().replace("ws://", "http://");
    let moved = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    );
    let moved = Answering::start("127.0.3.47", moved).await?;
    let node = node_with(&[]).await?;
    let project = LocalProject::new("tides")?;
    let url = format!("ws://{}", moved.authority);
    host_with_all(&project, &node, std::slice::from_ref(&url)).await?;
    until_relay(&node, "it is no relay", |relay| {
        relay["relay"] == url.as_str() && relay["last_error"].is_string()
    })
    .await?;
    ensure!(moved.count() > 1, "both were asked for");
    ensure!(elsewhere.connected().is_empty() && elsewhere.described() == 0);
    Ok(())
}

/// Git data of one address that is allowed, which sends us to one that is not.
#[tokio::test]
async fn g02_54_git_data_is_not_fetched_from_a_place_that_a_redirect_names_and_events_may_not()
-> Result<()> {
    let mut scene = Scene::new().await?;
    let host = RemoteHost::start("127.0.3.48").await?;
    let local = LocalProject::new("x")?;
    let daemon = Answering::start("127.0.3.49", String::new()).await?;
    let mut states = Vec::new();
    let places = [
        format!("ftp://{}/x.git", daemon.authority),
        format!("http://user:secret@{}/x.git", daemon.authority),
    ];
    for (n, to) in places.into_iter().enumerate() {
        let name = format!("{n}.git");
        host.behave_at(&name, Behaviour::Redirect { status: 307, to });
        let project = Project::new(&format!("x-{n}"));
        scene.announce(&project, &[host.clone_url(&name)]).await?;
        states.push(scene.hold_state(&project, &local.tip).await?);
    }
    let mut outcomes = BTreeSet::new();
    for state in &states {
        let tried = scene.has_tried(state, 1).await?;
        outcomes.extend(tried.into_iter().map(|one| one.outcome));
    }
    ensure!(daemon.count() == 0, "{outcomes:?}");
    until_ok("nothing is under way", async || {
        Ok((host.in_flight() == 0).then_some(()))
    })
    .await
}
