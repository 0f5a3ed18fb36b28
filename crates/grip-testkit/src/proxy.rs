//! Real reverse proxies, nginx and Caddy, with the configuration that is shipped for them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::{Node, port::ReservedPort, process::Process};

/// Where the shipped configurations expect the node.
const NODE: &str = "127.0.0.1:7334";

const CERTIFICATE: &str = "certificate.pem";

/// How long nginx waits where the configuration does not say; a minute in earnest.
pub const NGINX_PATIENCE: Duration = Duration::from_secs(2);

/// A proxy in front of a node, killed with its workers when dropped.
#[derive(Debug)]
pub struct ProxyServer {
    port: ReservedPort,
    tls_port: Option<ReservedPort>,
    process: Process,
    dir: TempDir,
}

impl ProxyServer {
    /// Starts nginx. It listens as the shipped server block says, with a certificate made for the
    /// test, and without TLS on a second port; times that the block leaves out are short.
    pub async fn nginx(shipped: &str, node: &Node) -> Result<Self> {
        let dir = TempDir::new()?;
        let (port, tls_port) = (ReservedPort::new()?, ReservedPort::new()?);
        let at = dir.path();
        make_certificate(at)?;
        let server = replaced(
            shipped,
            &[
                (
                    "[::]:443 ssl http2",
                    &format!("127.0.0.1:{}", port.number()),
                ),
                (
                    "443 ssl http2",
                    &format!("127.0.0.1:{} ssl http2", tls_port.number()),
                ),
                (
                    "/etc/letsencrypt/live/grasp.example.com/fullchain.pem",
                    &at.join(CERTIFICATE).display().to_string(),
                ),
                (
                    "/etc/letsencrypt/live/grasp.example.com/privkey.pem",
                    &at.join("key.pem").display().to_string(),
                ),
                (NODE, &node.authority()),
            ],
        )?;
        let patience = ["proxy_read", "proxy_send", "send", "client_body"];
        let patience =
            patience.map(|what| format!("{what}_timeout {}s;", NGINX_PATIENCE.as_secs()));
        let command = nginx(at, &format!("{}\n{server}", patience.join("\n")))?;
        Self::start(dir, command, port, Some(tls_port)).await
    }

    /// Starts an nginx that answers everything with 200 and two bytes: what any answer costs at
    /// least on this machine.
    pub async fn bare() -> Result<Self> {
        let (dir, port) = (TempDir::new()?, ReservedPort::new()?);
        let server = format!(
            "server {{\nlisten 127.0.0.1:{};\nkeepalive_requests 100000000;\n\
             location / {{ return 200 ok; }}\n}}",
            port.number()
        );
        let command = nginx(dir.path(), &server)?;
        Self::start(dir, command, port, None).await
    }

    /// Starts Caddy. It listens without TLS: its certificates come from the network.
    pub async fn caddy(shipped: &str, node: &Node) -> Result<Self> {
        let dir = TempDir::new()?;
        let port = ReservedPort::new()?;
        let site = replaced(
            shipped,
            &[
                (
                    "grasp.example.com {",
                    &format!("http://:{} {{\n\tbind 127.0.0.1", port.number()),
                ),
                (NODE, &node.authority()),
            ],
        )?;
        let file = dir.path().join("Caddyfile");
        fs::write(&file, format!("{{\n\tadmin off\n}}\n{site}"))?;
        let mut command = program("caddy");
        command
            .args(["run", "--adapter", "caddyfile", "--config"])
            .arg(file)
            .env("HOME", dir.path());
        Self::start(dir, command, port, None).await
    }

    async fn start(
        dir: TempDir,
        mut command: Command,
        port: ReservedPort,
        tls_port: Option<ReservedPort>,
    ) -> Result<Self> {
        let mut process = Process::new(dir.path().join("proxy.log"));
        process.redirect(&mut command)?;
        process.child = Some(
            command
                .spawn()
                .context("starting the proxy: is it installed?")?,
        );
        let at = ("127.0.0.1", port.number());
        let listens = process
            .until(async || TcpStream::connect(at).await.is_ok())
            .await;
        listens.with_context(|| process.log())?;
        Ok(Self {
            port,
            tls_port,
            process,
            dir,
        })
    }

    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The port with TLS, where the proxy has one.
    pub fn tls_port(&self) -> Option<u16> {
        self.tls_port.as_ref().map(ReservedPort::number)
    }

    /// The certificate of that port, for `localhost`, signed by nobody but itself.
    pub fn certificate(&self) -> PathBuf {
        self.dir.path().join(CERTIFICATE)
    }

    /// All that it has printed.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

impl Drop for ProxyServer {
    fn drop(&mut self) {
        self.process.kill_all();
    }
}

/// An nginx with `servers` and with all that it writes below `at`.
fn nginx(at: &Path, servers: &str) -> Result<Command> {
    let file = at.join("nginx.conf");
    let at = at.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|name| format!("{name}_temp_path {at}/{name};"));
    let text = format!(
        "daemon off;\nuser root;\npid {at}/nginx.pid;\nerror_log stderr;\nevents {{}}\n\
         http {{\naccess_log off;\n{}\n{servers}\n}}\n",
        temporary.join("\n")
    );
    fs::write(&file, text)?;
    let mut command = program("nginx");
    command.arg("-c").arg(file);
    Ok(command)
}

#[expect(clippy::disallowed_methods, reason = "tests run the real proxies")]
fn program(name: &str) -> Command {
    Command::new(name)
}

/// `text` with every pair replaced, each of which must be in it.
fn replaced(text: &str, pairs: &[(&str, &str)]) -> Result<String> {
    pairs.iter().try_fold(text.to_owned(), |text, (from, to)| {
        ensure!(text.contains(from), "{from} is not in the configuration");
        Ok(text.replace(from, to))
    })
}

/// Makes a certificate and `key.pem`, valid for nobody but the test.
fn make_certificate(dir: &Path) -> Result<()> {
    let made = program("openssl")
        .current_dir(dir)
        .args([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
        ])
        .args(["-subj", "/CN=localhost", "-keyout", "key.pem"])
        .args([
            "-addext",
            "subjectAltName=DNS:localhost",
            "-out",
            CERTIFICATE,
        ])
        .output()
        .context("starting openssl: is it installed?")?;
    let printed = String::from_utf8_lossy(&made.stderr);
    ensure!(made.status.success(), "no certificate: {printed}");
    Ok(())
}
