//! Asks the running node.

use std::{net::IpAddr, time::Duration};

use anyhow::{Context as _, bail};
use reqwest::Method;
use serde::de::DeserializeOwned;
use url::Url;

use crate::{
    admin_token,
    cli::NodeRequest,
    commands::table::plain,
    config::{self, Flags, ProcessEnvironment},
};

/// An answer looks into stores and is allowed to take longer than a probe.
const PATIENCE: Duration = Duration::from_secs(30);

/// An HTTP answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
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

    /// Reads what lies at a path of the API.
    pub(crate) fn get(&self, path: &[&str]) -> anyhow::Result<Answer> {
        self.send(Method::GET, &self.url(path), None)
    }

    /// The same as data; anything but success is an error in the node's own words.
    pub(crate) fn data<T: DeserializeOwned>(
        &self,
        path: &[&str],
        limit: usize,
    ) -> anyhow::Result<T> {
        self.data_where(path, &[("limit", &limit.to_string())])
    }

    /// The same, with parameters.
    pub(crate) fn data_where<T: DeserializeOwned>(
        &self,
        path: &[&str],
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<T> {
        let mut url = self.url(path);
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        let answer = self.send(Method::GET, &url, None)?;
        self.check(&answer)?;
        serde_json::from_str(&answer.body)
            .with_context(|| format!("{} gave an answer that cannot be read", self.name()))
    }

    /// Changes something, with the token of the data directory.
    pub(crate) fn change(&self, method: Method, path: &[&str]) -> anyhow::Result<Answer> {
        self.change_where(method, path, &[])
    }

    /// The same, with parameters.
    pub(crate) fn change_where(
        &self,
        method: Method,
        path: &[&str],
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<Answer> {
        // Asked first, so that a node that does not run is named before a token that is missing.
        self.send(Method::GET, &self.url(&["healthz"]), None)?;
        let token = self.token()?;
        let mut url = self.url(path);
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        let answer = self.send(method, &url, Some(&token))?;
        self.check(&answer)?;
        Ok(answer)
    }

    /// Says in the node's words why an answer is no success.
    pub(crate) fn check(&self, answer: &Answer) -> anyhow::Result<()> {
        let said = said(&answer.body);
        match answer.status {
            200..300 => Ok(()),
            404 if !said.is_empty() => bail!("{said}"),
            status => bail!("{} says {status}: {said}", self.name()),
        }
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

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .expect("because the base was looked at when it was read")
            .pop_if_empty()
            .extend(path);
        url
    }

    fn send(&self, method: Method, url: &Url, token: Option<&str>) -> anyhow::Result<Answer> {
        ask(method, url.as_str(), token, PATIENCE)
            .with_context(|| format!("no answer from {}; is the node running?", self.name()))
    }
}

/// GETs `url` within `patience`.
pub(crate) fn fetch(url: &str, patience: Duration) -> anyhow::Result<Answer> {
    ask(Method::GET, url, None, patience)
}

#[tokio::main(flavor = "current_thread")]
async fn ask(
    method: Method,
    url: &str,
    token: Option<&str>,
    patience: Duration,
) -> anyhow::Result<Answer> {
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
    Ok(Answer {
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

/// What an answer says for people: all of it, or the sentence within what is for programs.
fn said(body: &str) -> String {
    let shape: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message = shape
        .as_ref()
        .and_then(|shape| shape["error"]["message"].as_str());
    message.map_or_else(|| body.trim().to_owned(), plain)
}
