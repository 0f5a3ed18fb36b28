//! Faults between clients and a node that is well: the self-test names them from the clients' side.

use super::faults;

const ELSEWHERE: &str = "the node gets no such request, and is well";

faults! {
    not_running: "the node does not run",
        Selftest "nothing listens there (connection refused)",
        Status "nothing listens there (connection refused)",
        Explain "nothing listens there (connection refused)",
        - Log Readyz: "no node runs",
        => "start the node or the proxy, and check address and port";
    unknown_name: "the host name has no address",
        Selftest "the host name has no address",
        - Log Readyz Status Explain: ELSEWHERE,
        => "check the spelling, and the DNS record of the name";
    no_answer: "a firewall or an overloaded machine swallows requests",
        Selftest "no answer in time",
        - Log Readyz Status Explain: ELSEWHERE,
        => "check firewalls on the way, and the load of the machine";
    wrong_domain: "`domain` is not the name that clients use",
        Selftest "and serves as http://127.0.0.1:",
        - Log Readyz Status Explain: ELSEWHERE,
        => "set `domain` (and `base_path`) to the name that clients use";
    certificate: "the certificate of the proxy is not valid",
        Selftest "its certificate is not valid for this name, or has expired",
        - Log Readyz Status Explain: ELSEWHERE,
        => "renew the certificate, and have it name this host";
    no_tls: "TLS is expected where none is spoken",
        Selftest "it does not speak TLS as we do",
        - Log Readyz Status Explain: ELSEWHERE,
        => "check that the port is that of TLS";
    redirect: "the proxy redirects to another URL",
        Selftest "/healthz redirects (301",
        - Log Readyz Status Explain: ELSEWHERE,
        => "name the URL that clients end up at, most often https";
    other_server: "the proxy leads to another program",
        Selftest "and not as a node does",
        - Log Readyz Status Explain: ELSEWHERE,
        => "check that the proxy leads to the node (bind_address)";
    no_websocket: "the proxy does not pass websockets on",
        Selftest "no websocket is opened",
        - Log Readyz Status Explain: ELSEWHERE,
        => "have the proxy pass `Upgrade` and `Connection` on";
    small_bodies: "the proxy refuses large pushes",
        Selftest "a push of 2.0 MiB is answered with 413",
        - Log Readyz Status Explain: ELSEWHERE,
        => "client_max_body_size 0";
    changed_paths: "the proxy changes paths",
        Selftest "and not as git expects",
        - Log Readyz Status Explain: ELSEWHERE,
        => "have the proxy pass paths on as they are, with their query";
    doubled_cors: "the proxy adds CORS headers of its own",
        Selftest "Access-Control-Allow-Origin is * and *",
        - Log Readyz Status Explain: ELSEWHERE,
        => "let the proxy neither remove nor add Access-Control-* headers";
    wrong_clock: "the clock of the node is wrong",
        Selftest "its clock and that of this machine differ by",
        - Log Readyz Status Explain: "a node has no other clock to compare with",
        => "have both follow NTP";
}

mod stage {
    use std::net::TcpListener;

    use anyhow::{Result, ensure};
    use grip_testkit::{
        LocalProject, Node, ProxyServer, RemoteHost, ReservedPort, clock_off_by, remote::Behaviour,
    };

    use crate::{BINARY, operate::faults::Staged};

    const NGINX: &str = include_str!("../../../../../../packaging/nginx.conf");

    /// A node behind nginx, whose shipped configuration says `to` in place of `from`.
    async fn behind(from: &str, to: &str) -> Result<Staged> {
        ensure!(NGINX.contains(from), "{from} is not in the configuration");
        let node = Node::start(BINARY).await?;
        let proxy = ProxyServer::nginx(&NGINX.replace(from, to), &node).await?;
        let url = format!("http://127.0.0.1:{}", proxy.port());
        Ok(Staged::new(node).at(url).with(proxy))
    }

    /// No node: something else answers at `url`.
    fn elsewhere(url: impl Into<String>) -> Result<Staged> {
        Ok(Staged::new(Node::prepare(BINARY, &[])?).at(url))
    }

    pub(super) async fn not_running() -> Result<Staged> {
        Ok(Staged::new(Node::prepare(BINARY, &[])?).about("00".repeat(32)))
    }

    pub(super) async fn unknown_name() -> Result<Staged> {
        elsewhere("http://grasp.invalid")
    }

    pub(super) async fn no_answer() -> Result<Staged> {
        // The kernel completes the handshake; nobody ever accepts.
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        Ok(elsewhere(url)?.with(listener))
    }

    pub(super) async fn wrong_domain() -> Result<Staged> {
        let node = Node::start(BINARY).await?;
        let url = format!("http://localhost:{}", node.port());
        Ok(Staged::new(node).at(url))
    }

    pub(super) async fn certificate() -> Result<Staged> {
        let node = Node::start(BINARY).await?;
        let proxy = ProxyServer::nginx(NGINX, &node).await?;
        let port = proxy.tls_port().unwrap_or_default();
        let url = format!("https://localhost:{port}");
        Ok(Staged::new(node).at(url).with(proxy))
    }

    pub(super) async fn no_tls() -> Result<Staged> {
        let node = Node::start(BINARY).await?;
        let url = format!("https://127.0.0.1:{}", node.port());
        Ok(Staged::new(node).at(url))
    }

    pub(super) async fn redirect() -> Result<Staged> {
        let port = ReservedPort::new()?;
        let other = format!(
            "return 301 https://127.0.0.1:{}$request_uri;",
            port.number()
        );
        behind(
            "proxy_pass http://127.0.0.1:7334;",
            &format!("{other} # 127.0.0.1:7334"),
        )
        .await
        .map(|staged| staged.with(port))
    }

    pub(super) async fn other_server() -> Result<Staged> {
        let host = RemoteHost::start("127.0.0.2").await?;
        host.behave(Behaviour::Page);
        let url = format!("http://{}", host.authority());
        Ok(elsewhere(url)?.with(host))
    }

    pub(super) async fn no_websocket() -> Result<Staged> {
        behind("proxy_set_header Upgrade $http_upgrade;", "").await
    }

    pub(super) async fn small_bodies() -> Result<Staged> {
        behind("client_max_body_size 0;", "").await
    }

    pub(super) async fn changed_paths() -> Result<Staged> {
        // The path alone is passed on, without its query.
        let staged = behind("127.0.0.1:7334;", "127.0.0.1:7334$uri;").await?;
        LocalProject::new("tides")?.publish(&staged.node, 5).await?;
        Ok(staged)
    }

    pub(super) async fn doubled_cors() -> Result<Staged> {
        behind(
            "location / {",
            "location / {\n        add_header Access-Control-Allow-Origin * always;",
        )
        .await
    }

    pub(super) async fn wrong_clock() -> Result<Staged> {
        let env = clock_off_by(-3600)?;
        let env: Vec<_> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        Ok(Staged::new(Node::start_with(BINARY, &env).await?))
    }
}
