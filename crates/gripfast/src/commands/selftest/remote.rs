//! Checks of a running node, from where its clients are.

use std::time::{Duration, SystemTime};

use grip_web::api_types::NodeStatus;
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use url::Url;

use super::report::{Checked, Failure, Report};
use crate::commands::{
    cause::{self, Cause},
    progress::size,
    relay_client::RelayClient,
};

const PATIENCE: Duration = Duration::from_secs(15);
/// Events are refused or reordered by clocks that differ by more.
const MAX_SKEW: Duration = Duration::from_secs(60);
/// A path that no node serves, in the form of a repository.
const NOBODY: &str = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d/selftest.git";

/// More than proxies let pass by default.
const PUSH_BYTES: usize = 2 << 20;

/// Runs all checks; those after a node that cannot be reached are skipped.
pub(super) async fn run(url: &str, report: &mut Report) -> anyhow::Result<()> {
    let url = url.trim_end_matches('/');
    let base = Url::parse(url)?;
    let node = Remote {
        client: client()?,
        pusher: client()?,
        url,
        base,
    };
    let probe = node.ask(Method::GET, "healthz", "text/plain").await;
    let is_https = node.base.scheme() == "https";
    match &probe {
        _ if !is_https => report.skip("tls", "the URL is http; clients elsewhere need https"),
        Ok(_) => report.pass("tls", "the certificate is valid for this name"),
        Err((Cause::Certificate | Cause::Tls, failure)) => report.fail("tls", failure),
        Err(_) => report.skip("tls", "the node was not reached"),
    }
    if !report.check("reach", node.reach(probe)).await {
        for name in [
            "ready",
            "domain",
            "websocket",
            "git",
            "push",
            "cors",
            "clock",
            "disk",
        ] {
            report.skip(name, "the node was not reached");
        }
        return Ok(());
    }
    let is_ready = report.check("ready", node.ready()).await;
    let status = node.status().await;
    report.check("domain", node.domain(&status)).await;
    let mut announced = None;
    report
        .check("websocket", node.websocket(&mut announced))
        .await;
    report.check("git", node.git(announced.as_ref())).await;
    report.check("push", node.push()).await;
    report.check("cors", node.cors()).await;
    report.check("clock", node.clock()).await;
    match &status {
        // A full disk is a part that is not ready.
        Some(status) if status.disks.is_empty() && is_ready => {
            report.pass("disk", "room for pushes and events, as /readyz says");
        }
        Some(status) if status.disks.is_empty() => {
            report.skip("disk", "shown on its machine alone, by `gripfast status`");
        }
        status => {
            report.check("disk", async { disk(status) }).await;
        }
    }
    Ok(())
}

fn client() -> reqwest::Result<Client> {
    grip_egress::command_client()
        .timeout(PATIENCE)
        .user_agent(concat!("gripfast-selftest/", env!("CARGO_PKG_VERSION")))
        .build()
}

struct Remote<'a> {
    client: Client,
    /// With connections of its own: a body that is not read to its end closes them.
    pusher: Client,
    url: &'a str,
    base: Url,
}

impl Remote<'_> {
    async fn get(&self, path: &str, accept: &str) -> Result<Response, Failure> {
        let asked = self.ask(Method::GET, path, accept).await;
        asked.map_err(|(_, failure)| failure)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        accept: &str,
    ) -> Result<Response, (Cause, Failure)> {
        let url = format!("{}/{path}", self.url);
        let request = self.client.request(method, &url).header("accept", accept);
        Self::sent(request, &url).await
    }

    async fn sent(request: RequestBuilder, url: &str) -> Result<Response, (Cause, Failure)> {
        request.send().await.map_err(|error| {
            let cause = Cause::of(&error);
            let next_step = match cause {
                Cause::Name => "check the spelling, and the DNS record of the name",
                Cause::Refused => "start the node or the proxy, and check address and port",
                Cause::Certificate => "renew the certificate, and have it name this host",
                Cause::Tls => "check that the port is that of TLS, and the proxy's TLS settings",
                Cause::TimedOut => "check firewalls on the way, and the load of the machine",
                Cause::Closed | Cause::Other => "look at the log of the proxy and of the node",
            };
            let text = format!("{url}: {}", cause::in_words(&error));
            (cause, Failure::new(text, next_step))
        })
    }

    async fn reach(&self, probe: Result<Response, (Cause, Failure)>) -> Checked {
        let response = probe.map_err(|(_, failure)| failure)?;
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        if status == 200 && text == "ok\n" {
            return Ok(format!("{} answers", self.url));
        }
        if status.is_redirection() {
            let text = format!("{}/healthz redirects ({status})", self.url);
            return Err(Failure::new(
                text,
                "name the URL that clients end up at, most often https",
            ));
        }
        let text = format!(
            "{}/healthz answers {status}, and not as a node does",
            self.url
        );
        Err(Failure::new(
            text,
            "check that the proxy leads to the node (bind_address)",
        ))
    }

    async fn ready(&self) -> Checked {
        let response = self.get("readyz", "application/json").await?;
        let status = response.status();
        let body: Value = response.json().await.unwrap_or_default();
        let parts = |key: &str| {
            let parts = body[key].as_object().into_iter().flatten();
            let parts =
                parts.map(|(part, why)| format!("{part}: {}", why.as_str().unwrap_or_default()));
            parts.collect::<Vec<_>>().join("; ")
        };
        let next_step =
            "`gripfast status` on its machine says more; docs/troubleshooting.md goes by symptom";
        match (status.as_u16(), parts("missing"), parts("degraded")) {
            (200, _, degraded) if degraded.is_empty() => Ok("all parts work".to_owned()),
            (200, _, degraded) => Err(Failure::new(format!("degraded: {degraded}"), next_step)),
            (_, missing, _) if !missing.is_empty() => {
                Err(Failure::new(format!("not ready: {missing}"), next_step))
            }
            (status, ..) => Err(Failure::new(
                format!("/readyz answers {status}"),
                "check that the proxy leads to the node",
            )),
        }
    }

    async fn status(&self) -> Option<NodeStatus> {
        let response = self.get("api/v1/status", "application/json").await;
        response.ok()?.json().await.ok()
    }

    async fn domain(&self, status: &Option<NodeStatus>) -> Checked {
        let Some(status) = status else {
            return Err(Failure::new(
                "the node does not say under which name it serves",
                "check that the proxy passes /api/ on",
            ));
        };
        let name = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
        if name(&status.url) == name(self.url) {
            return Ok(format!("it serves as {}", status.url));
        }
        Err(Failure::new(
            format!("it is reached as {} and serves as {}", self.url, status.url),
            "set `domain` (and `base_path`) to the name that clients use: announcements that list \
             another one are refused",
        ))
    }

    async fn websocket(&self, announced: &mut Option<Value>) -> Checked {
        let proxy =
            "have the proxy pass `Upgrade` and `Connection` on for / (packaging/nginx.conf)";
        let failed = |what: &str, error: anyhow::Error| {
            Failure::new(
                format!("{what}: {}", crate::failure::sentence(&error)),
                proxy,
            )
        };
        let mut relay = RelayClient::connect(self.url)
            .await
            .map_err(|e| failed("no websocket is opened", e))?;
        let found = relay.query(json!({ "kinds": [30617], "limit": 1 })).await;
        let mut found = found.map_err(|e| failed("the relay gives no answer", e))?;
        *announced = found.pop();
        Ok("a subscription is answered".to_owned())
    }

    async fn git(&self, announced: Option<&Value>) -> Checked {
        let served = announced.and_then(repository_path);
        let path = served.as_deref().unwrap_or(NOBODY);
        let path = format!("{path}/info/refs?service=git-upload-pack");
        let response = self.get(&path, "*/*").await?;
        let status = response.status().as_u16();
        let kind = response.headers().get("content-type");
        let kind = kind
            .and_then(|kind| kind.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let body = response.bytes().await.unwrap_or_default();
        let is_advertisement = kind == "application/x-git-upload-pack-advertisement"
            && body.starts_with(b"001e# service=git-upload-pack\n");
        let is_ours = String::from_utf8_lossy(&body).contains("kind 30617");
        match (served.is_some(), status) {
            (true, 200) if is_advertisement => Ok("refs are advertised".to_owned()),
            // It may be one that lists other servers, or is withdrawn.
            (_, 404) if is_ours => {
                Ok("git paths lead to the node; none of its repositories was read".to_owned())
            }
            (_, 503) => Err(Failure::new(
                "the repository is not served (503)",
                "`gripfast check` on its machine names what is damaged",
            )),
            _ => Err(Failure::new(
                format!("{path} answers {status} with {kind:?}, and not as git expects"),
                "have the proxy pass paths on as they are, with their query",
            )),
        }
    }

    /// Sends a body for a repository that is nowhere: the node refuses it for that, a proxy for its
    /// size.
    async fn push(&self) -> Checked {
        let url = format!("{}/{NOBODY}/git-receive-pack", self.url);
        let request = self.pusher.post(&url).body(vec![b'0'; PUSH_BYTES]);
        let bytes = size(PUSH_BYTES as u64);
        match Self::sent(request, &url).await {
            Ok(response) if response.status() == 413 => Err(Failure::new(
                format!("a push of {bytes} is answered with 413"),
                "let the proxy pass bodies of any size (client_max_body_size 0 of nginx): \
                 max_pack_bytes is the limit of a push",
            )),
            // The node has answered and does not read on.
            Ok(_) | Err((Cause::Closed, _)) => {
                Ok(format!("a push of {bytes} is not refused for its size"))
            }
            Err((_, failure)) => Err(failure),
        }
    }

    async fn cors(&self) -> Checked {
        let path = format!("{NOBODY}/info/refs");
        let response = self.ask(Method::OPTIONS, &path, "*/*").await;
        let response = response.map_err(|(_, failure)| failure)?;
        let origins = response.headers().get_all("access-control-allow-origin");
        let origins: Vec<_> = origins
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect();
        let next_step = "let the proxy neither remove nor add Access-Control-* headers, nor answer \
                         OPTIONS itself";
        match (&origins[..], response.status().is_success()) {
            (["*"], true) => Ok("pages of any origin may use it".to_owned()),
            ([], _) => Err(Failure::new("the answers carry no CORS headers", next_step)),
            (["*"], false) => {
                let text = format!("OPTIONS is answered with {}", response.status());
                Err(Failure::new(text, next_step))
            }
            (several, _) => {
                let text = format!("Access-Control-Allow-Origin is {}", several.join(" and "));
                Err(Failure::new(text, next_step))
            }
        }
    }

    async fn clock(&self) -> Checked {
        let response = self.get("healthz", "text/plain").await?;
        let date = response
            .headers()
            .get("date")
            .and_then(|date| date.to_str().ok());
        let theirs = date.and_then(|date| httpdate::parse_http_date(date).ok());
        let Some(theirs) = theirs else {
            return Ok("it does not say what time it is".to_owned());
        };
        let ours = SystemTime::now();
        let skew = ours
            .duration_since(theirs)
            .or_else(|_| theirs.duration_since(ours));
        let skew = skew.unwrap_or_default();
        if skew <= MAX_SKEW {
            return Ok("its clock and ours agree".to_owned());
        }
        Err(Failure::new(
            format!(
                "its clock and that of this machine differ by {} s",
                skew.as_secs()
            ),
            "have both follow NTP: events from the future are refused, old ones lose to others",
        ))
    }
}

/// The path of an announced repository at every node that serves it.
fn repository_path(announcement: &Value) -> Option<String> {
    let owner = nostr::prelude::PublicKey::from_hex(announcement["pubkey"].as_str()?).ok()?;
    let tags = announcement["tags"].as_array()?;
    let identifier = tags.iter().find(|tag| tag[0] == "d")?[1].as_str()?;
    let identifier = grip_types::Identifier::parse(identifier).ok()?;
    Some(grip_types::RepoAddr::new(owner, identifier).path())
}

fn disk(status: &Option<NodeStatus>) -> Checked {
    let Some(status) = status else {
        return Err(Failure::new(
            "the node does not say how full its disks are",
            "check that the proxy passes /api/ on",
        ));
    };
    let full = status
        .disks
        .iter()
        .find(|disk| disk.free_bytes < disk.floor_bytes);
    if let Some(disk) = full {
        let text = format!(
            "{} free on the disk of {}",
            size(disk.free_bytes),
            disk.holds
        );
        return Err(Failure::new(
            format!("{text}: pushes and events are refused"),
            "make room, or lower min_free_bytes",
        ));
    }
    let least = status.disks.iter().map(|disk| disk.free_bytes).min();
    Ok(format!("{} free", size(least.unwrap_or_default())))
}
