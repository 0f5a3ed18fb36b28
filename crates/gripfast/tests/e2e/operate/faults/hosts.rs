//! Faults of hosts that git data is fetched from: the explanation of the event that waits names them.

use super::faults;

const OTHERS: &str = "it is no fault of this node";

faults! {
    denied: "the host wants a login (403)",
        Explain "the host responded with status 403",
        Log "the host responded with status 403",
        Status "the host responded with status 403",
        - Readyz Selftest: OTHERS,
        => "make the repository public at that host, or push the data here";
    not_found: "the host has no such repository (404)",
        Explain "the host responded with status 404",
        Log "the host responded with status 404",
        Status "the host responded with status 404",
        - Readyz Selftest: OTHERS,
        => "correct the clone URL in the announcement, or push the data here";
    rate_limited: "the host wants to be left alone (429)",
        Explain "the host responded with status 429",
        Log "the host responded with status 429",
        Status "the host responded with status 429",
        - Readyz Selftest: OTHERS,
        => "the host is left alone for as long as it asks";
    server_error: "the host has a fault of its own (500)",
        Explain "the host responded with status 500",
        Log "the host responded with status 500",
        Status "the host responded with status 500",
        - Readyz Selftest: OTHERS,
        => "nothing to do here: the host is asked again by itself";
    silent: "the host takes requests and never answers",
        Explain "the host sent no response in time",
        Log "the host sent no response in time",
        Status "the host sent no response in time",
        - Readyz Selftest: OTHERS,
        => "nothing to do here: the host is asked again by itself";
    stuck: "the host stops in the middle of a pack",
        Explain "the host stopped in the middle of its response",
        Log "the host stopped in the middle of its response",
        Status "the host stopped in the middle of its response",
        - Readyz Selftest: OTHERS,
        => "nothing to do here: the host is asked again by itself";
    refused: "nothing listens at the host",
        Explain "the connection was refused",
        Log "the connection was refused",
        Status "the connection was refused",
        - Readyz Selftest: OTHERS,
        => "correct the port of the clone URL, if it is wrong";
    certificate: "the certificate of the host is not valid",
        Explain "its certificate is not valid",
        Log "its certificate is not valid",
        Status "its certificate is not valid",
        - Readyz Selftest: OTHERS,
        => "have that host renew its certificate, or push the data here";
    unknown_name: "the name of the host cannot be resolved",
        Explain "(DNS)",
        Log "(DNS)",
        Status "(DNS)",
        - Readyz Selftest: OTHERS,
        => "correct the host name in the announcement, or the DNS of this machine";
    web_page: "the clone URL leads to a web page",
        Explain "the answer is not of the git protocol",
        Log "the answer is not of the git protocol",
        Status "the answer is not of the git protocol",
        - Readyz Selftest: OTHERS,
        => "correct the clone URL in the announcement: it leads to no git server";
    broken_off: "the connection breaks in the middle of a pack",
        Explain "broke off",
        Log "broke off",
        Status "broke off",
        - Readyz Selftest: OTHERS,
        => "nothing to do here: the host is asked again by itself";
    too_large: "the repository is larger than `sync_max_pack_bytes`",
        Explain "larger than the 1048576 bytes",
        Log "larger than the 1048576 bytes",
        Status "larger than the 1048576 bytes",
        - Readyz Selftest: OTHERS,
        => "raise sync_max_pack_bytes, or push the data here";
    not_there: "the host does not have the commit",
        Explain "the host does not have abababab",
        Status "the host does not have abababab",
        - Log: "the host is sound",
        - Readyz Selftest: OTHERS,
        => "push the missing commits here, or to that host";
    private_address: "the clone URL leads into a private network",
        Explain "is not a public host",
        Status "is not a public host",
        - Log: "the host is sound",
        - Readyz Selftest: OTHERS,
        => "announce a clone URL at a public host";
}

mod stage {
    use anyhow::Result;
    use grip_testkit::{
        LocalProject, Node, ProxyServer, RemoteProject, WorkTree, remote::Behaviour,
    };

    use crate::{BINARY, operate::faults::Staged, sync::scene::Scene};

    const NGINX: &str = include_str!("../../../../../../packaging/nginx.conf");
    const IMPATIENT: &[(&str, &str)] = &[
        ("GRIPFAST_SYNC_CONNECT_TIMEOUT", "1s"),
        ("GRIPFAST_SYNC_IDLE_TIMEOUT", "1s"),
    ];

    /// An event that waits for data at a host that behaves so.
    async fn meets(behaviour: Behaviour, env: &[(&str, &str)]) -> Result<Staged> {
        let tree = WorkTree::init()?;
        tree.commit_noise(1, 1)?;
        let local = LocalProject::with_tree("tides", tree)?;
        let remote = RemoteProject::start("127.0.0.2", "tides.git", local).await?;
        remote.host.behave(behaviour);
        let mut scene = Scene::with(env).await?;
        let state = scene.hold_remote(&remote).await?;
        Ok(Staged::new(scene.node)
            .about(state.id.to_hex())
            .with(remote))
    }

    /// An event that waits for data at this URL.
    async fn at(url: String, mut scene: Scene) -> Result<Staged> {
        let project = LocalProject::new("tides")?;
        scene.announce(&project, &[url]).await?;
        let state = scene.hold_state(&project, &project.tip).await?;
        Ok(Staged::new(scene.node).about(state.id.to_hex()))
    }

    pub(super) async fn denied() -> Result<Staged> {
        meets(Behaviour::status(403), &[]).await
    }

    pub(super) async fn not_found() -> Result<Staged> {
        meets(Behaviour::status(404), &[]).await
    }

    pub(super) async fn rate_limited() -> Result<Staged> {
        meets(Behaviour::retry_after(429, 60), &[]).await
    }

    pub(super) async fn server_error() -> Result<Staged> {
        meets(Behaviour::status(500), &[]).await
    }

    pub(super) async fn silent() -> Result<Staged> {
        meets(Behaviour::HangBeforeHeaders, IMPATIENT).await
    }

    pub(super) async fn stuck() -> Result<Staged> {
        meets(Behaviour::HangAfter { bytes: 100_000 }, IMPATIENT).await
    }

    pub(super) async fn refused() -> Result<Staged> {
        let mut scene = Scene::new().await?;
        let url = format!("http://127.0.0.2:{}/tides.git", scene.node.reserve_port()?);
        at(url, scene).await
    }

    pub(super) async fn certificate() -> Result<Staged> {
        let behind = Node::prepare(BINARY, &[])?;
        let proxy = ProxyServer::nginx(NGINX, &behind).await?;
        let port = proxy.tls_port().unwrap_or_default();
        let url = format!("https://127.0.0.1:{port}/tides.git");
        Ok(at(url, Scene::new().await?).await?.with(proxy))
    }

    pub(super) async fn unknown_name() -> Result<Staged> {
        let scene = Scene::with(IMPATIENT).await?;
        at("https://git.invalid/tides.git".to_owned(), scene).await
    }

    pub(super) async fn web_page() -> Result<Staged> {
        meets(Behaviour::Page, &[]).await
    }

    pub(super) async fn broken_off() -> Result<Staged> {
        meets(Behaviour::CloseAfter { bytes: 100_000 }, &[]).await
    }

    pub(super) async fn too_large() -> Result<Staged> {
        let settings = [("GRIPFAST_SYNC_MAX_PACK_BYTES", "1 MiB")];
        meets(Behaviour::Endless, &settings).await
    }

    pub(super) async fn not_there() -> Result<Staged> {
        let (mut scene, remote) = Scene::with_remote(&[]).await?;
        scene
            .announce(&remote, std::slice::from_ref(&remote.url))
            .await?;
        let state = scene.hold_state(&remote, &"ab".repeat(20)).await?;
        Ok(Staged::new(scene.node)
            .about(state.id.to_hex())
            .with(remote))
    }

    pub(super) async fn private_address() -> Result<Staged> {
        let scene = Scene::start(&[
            ("NGIT_SYNC_DEFAULT_DELAY_SECS", "0"),
            ("NGIT_SYNC_LOOP_INTERVAL_MS", "100"),
        ]);
        at("http://10.1.2.3/tides.git".to_owned(), scene.await?).await
    }
}
