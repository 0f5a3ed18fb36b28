//! The server under test.

use std::{pin::Pin, sync::Arc};

use anyhow::{Context as _, Result, bail};
use grip_testkit::RelayClient;
use url::Url;

/// A server, by its URL.
#[derive(Clone)]
pub struct Target {
    pub http: String,
    pub relay: String,
    /// `host[:port]`, as announcements name it.
    pub authority: String,
    pub control: Option<Arc<dyn Control>>,
    pub client: reqwest::Client,
}

/// Power over the server, for cases that need more than its URL.
pub trait Control: Send + Sync {
    /// Ends the server as a power cut would and starts it with further environment variables.
    fn crash_and_restart<'a>(
        &'a self,
        env: &'a [(&'a str, &'a str)],
    ) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;
}

/// The value of a header in lower case; empty without one.
pub fn header(response: &reqwest::Response, name: &str) -> String {
    let value = response
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_lowercase()
}

impl Target {
    /// Reads `http(s)://host[:port]`.
    pub fn new(url: &str, client: reqwest::Client) -> Result<Self> {
        let parsed = Url::parse(url).context("the server's URL")?;
        let relay_scheme = match parsed.scheme() {
            "http" => "ws",
            "https" => "wss",
            other => bail!("{other} is not http or https"),
        };
        let host = parsed.host_str().context("the URL names no host")?;
        let port = parsed
            .port()
            .map(|port| format!(":{port}"))
            .unwrap_or_default();
        let authority = format!("{host}{port}");
        Ok(Self {
            http: format!("{}://{authority}", parsed.scheme()),
            relay: format!("{relay_scheme}://{authority}"),
            authority,
            control: None,
            client,
        })
    }

    pub fn with_control(mut self, control: Arc<dyn Control>) -> Self {
        self.control = Some(control);
        self
    }

    pub async fn restart_with(&self, env: &[(&str, &str)]) -> Result<()> {
        let control = self
            .control
            .as_ref()
            .context("the case needs control of the server")?;
        control.crash_and_restart(env).await
    }

    /// Says whether the server lists GRASP-06, after switching it on where it can be.
    pub(crate) async fn serves_contributors(&self) -> Result<bool> {
        if self.control.is_some() {
            self.restart_with(&[("NGIT_GRASP06_ENABLE", "true")])
                .await?;
        }
        let accept = [("accept", "application/nostr+json")];
        let document: serde_json::Value = self.get("/", &accept).await?.json().await?;
        let grasps = document["supported_grasps"].as_array();
        Ok(grasps.is_some_and(|grasps| grasps.iter().any(|grasp| grasp == "GRASP-06")))
    }

    pub async fn connect(&self) -> Result<RelayClient> {
        RelayClient::connect(&self.relay).await
    }

    pub async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Result<reqwest::Response> {
        self.request(reqwest::Method::GET, path, headers, Vec::new())
            .await
    }

    /// The status of a GET.
    pub async fn status(&self, path: &str) -> Result<u16> {
        Ok(self.get(path, &[]).await?.status().as_u16())
    }

    pub async fn request(
        &self,
        method: reqwest::Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Result<reqwest::Response> {
        let mut request = self
            .client
            .request(method, format!("{}{path}", self.http))
            .body(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.context("HTTP request")
    }
}
