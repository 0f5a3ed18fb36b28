//! Requests to the running node.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, bail};
use reqwest::Method;
use serde::de::DeserializeOwned;
use url::Url;

use crate::{
    admin_token,
    cli::NodeRequest,
    commands::{table::plain, when::Now},
    config::{self, Flags, ProcessEnvironment},
};

/// Handlers read stores and may take longer than a probe.
const PATIENCE: Duration = Duration::from_secs(30);

/// An HTTP response, read whole.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// The node that a command asks.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    base: Url,
    request: &'a NodeRequest,
}

impl<'a> Node<'a> {
    pub(crate) fn new(request: &'a NodeRequest) -> anyhow::Result<Self> {
        let base = base_url(request.url.as_deref(), &request.flags)?;
        let base = Url::parse(&base).with_context(|| format!("{base} is no URL"))?;
        if base.cannot_be_a_base() {
            bail!("{base} is no URL of a node");
        }
        Ok(Self { base, request })
    }

    /// How the node is called in sentences.
    pub(crate) fn name(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Reads a path of the API.
    pub(crate) fn get(&self, path: &[&str]) -> anyhow::Result<Response> {
        let token = self.token_for_reading();
        self.send(Method::GET, &self.url(path, &[]), token.as_deref())
    }

    /// The same as text, with parameters; anything but success is an error in the node's own words.
    pub(crate) fn text(
        &self,
        path: &[&str],
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<String> {
        let token = self.token_for_reading();
        let url = self.url(path, parameters);
        let response = self.send(Method::GET, &url, token.as_deref())?;
        self.check(&response)?;
        Ok(response.body)
    }

    /// The same as data; anything but success is an error in the node's own words.
    pub(crate) fn data<T: DeserializeOwned>(
        &self,
        path: &[&str],
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<T> {
        serde_json::from_str(&self.text(path, parameters)?)
            .with_context(|| format!("{} gave a response that cannot be read", self.name()))
    }

    /// Shows the data of a path: as it is for `--json`, else as `render` lays it out.
    pub(crate) fn show<T: DeserializeOwned>(
        &self,
        path: &[&str],
        parameters: &[(&str, &str)],
        render: impl FnOnce(&T, Now) -> String,
    ) -> anyhow::Result<()> {
        if self.request.json {
            let data: serde_json::Value = self.data(path, parameters)?;
            anstream::println!("{data:#}");
        } else {
            let data: T = self.data(path, parameters)?;
            anstream::print!("{}", render(&data, Now::new()));
        }
        Ok(())
    }

    /// Changes something, with the token of the data directory, and returns the response.
    pub(crate) fn change(
        &self,
        method: Method,
        path: &[&str],
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<String> {
        // Asked first, so that a node that does not run is named before a token that is missing.
        self.send(Method::GET, &self.url(&["healthz"], &[]), None)?;
        let token = self.token()?;
        let response = self.send(method, &self.url(path, parameters), Some(&token))?;
        self.check(&response)?;
        Ok(response.body.trim_end().to_owned())
    }

    /// Changes something and says so: the response itself for `--json`, else `done`.
    pub(crate) fn order(
        &self,
        method: Method,
        path: &[&str],
        parameters: &[(&str, &str)],
        done: &str,
    ) -> anyhow::Result<()> {
        let response = self.change(method, path, parameters)?;
        let text = if self.request.json { &response } else { done };
        anstream::println!("{text}");
        Ok(())
    }

    /// Says in the node's words why an answer is no success.
    pub(crate) fn check(&self, response: &Response) -> anyhow::Result<()> {
        let message = message(&response.body);
        match response.status {
            200..300 => Ok(()),
            404 if !message.is_empty() => bail!("{message}"),
            status => bail!("{} says {status}: {message}", self.name()),
        }
    }

    /// The token where it is needed to read: of the private service that is configured here, and
    /// never of one that was named.
    fn token_for_reading(&self) -> Option<String> {
        if self.request.url.is_some() {
            return None;
        }
        let settings = config::load(&self.request.flags, &ProcessEnvironment)
            .ok()?
            .settings;
        let is_private = settings.acceptance.private_mode;
        is_private.then(|| self.token().ok()).flatten()
    }

    fn token(&self) -> anyhow::Result<String> {
        let settings = config::load(&self.request.flags, &ProcessEnvironment)?.settings;
        let path = admin_token::path(&settings.storage.data_dir);
        admin_token::read(&path).with_context(|| {
            let hint = match path.try_exists() {
                Ok(true) => "run this as the user of the node",
                _ => "the running node makes it; name its data directory with --data-dir",
            };
            format!(
                "there is no admin token to read in {} ({hint})",
                path.display()
            )
        })
    }

    fn url(&self, path: &[&str], parameters: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .expect("because the base was looked at when it was read")
            .pop_if_empty()
            .extend(path);
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        url
    }

    fn send(&self, method: Method, url: &Url, token: Option<&str>) -> anyhow::Result<Response> {
        ask(method, url.as_str(), token, PATIENCE)
            .with_context(|| format!("no response from {}; is the node running?", self.name()))
    }
}

/// GETs `url` within `patience`.
pub(crate) fn fetch(url: &str, patience: Duration) -> anyhow::Result<Response> {
    ask(Method::GET, url, None, patience)
}

#[tokio::main(flavor = "current_thread")]
async fn ask(
    method: Method,
    url: &str,
    token: Option<&str>,
    patience: Duration,
) -> anyhow::Result<Response> {
    let client = reqwest::Client::builder()
        .timeout(patience)
        .no_proxy()
        // A token goes to the node that was named and nowhere else.
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("gripfast/", env!("CARGO_PKG_VERSION")))
        .build()?;
    let mut request = client
        .request(method, url)
        .header("accept", "application/json");
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    let response = request.send().await?;
    Ok(Response {
        status: response.status().as_u16(),
        body: response.text().await?,
    })
}

/// The node to ask: the one named, else the one configured here, by its own address.
pub(crate) fn base_url(named: Option<&str>, flags: &Flags) -> anyhow::Result<String> {
    if let Some(url) = named {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    let settings = config::load(flags, &ProcessEnvironment)?.settings;
    let mut address = settings.reach.bind_address;
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    let service = settings.service();
    Ok(format!("http://{address}/{}", service.base())
        .trim_end_matches('/')
        .to_owned())
}

/// The text of a response for people: all of it, or the message of a JSON error.
fn message(body: &str) -> String {
    let shape: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message = shape
        .as_ref()
        .and_then(|shape| shape["error"]["message"].as_str());
    message.map_or_else(|| body.trim().to_owned(), plain)
}
