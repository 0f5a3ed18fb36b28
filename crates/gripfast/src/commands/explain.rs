//! `gripfast explain`: asks the running node and shows its answer.

mod render;

use std::{
    net::IpAddr,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, bail};

use crate::{
    cli::ExplainRequest,
    config::{self, Flags, Process},
};

/// An explanation looks into stores and is allowed to take longer than a probe.
const PATIENCE: Duration = Duration::from_secs(30);

/// Prints why the subject is served, held or refused.
pub(crate) fn run(request: ExplainRequest) -> anyhow::Result<()> {
    let base = base_url(request.url.as_deref(), &request.flags)?;
    let mut url = url::Url::parse(&base).with_context(|| format!("{base} is no URL"))?;
    url.path_segments_mut()
        .map_err(|()| anyhow::anyhow!("{base} is no URL of a node"))?
        .pop_if_empty()
        .extend(["api", "v1", "explain"])
        .extend(request.subject.split('/'));
    let answer = fetch(url.as_str(), PATIENCE)
        .with_context(|| format!("no answer from {base}; is the node running?"))?;
    if answer.status >= 400 && answer.status != 404 {
        bail!("{base} says {}: {}", answer.status, answer.body.trim());
    }
    if request.json {
        anstream::println!("{}", answer.body.trim_end());
        return Ok(());
    }
    let explanation = serde_json::from_str(&answer.body)
        .with_context(|| format!("{base} gave something else than an explanation"))?;
    anstream::print!("{}", render::page(&explanation, SystemTime::now()));
    Ok(())
}

/// An HTTP answer, read whole.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// GETs `url` within `patience`.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn fetch(url: &str, patience: Duration) -> anyhow::Result<Answer> {
    let client = reqwest::Client::builder()
        .timeout(patience)
        .no_proxy()
        .user_agent(concat!("gripfast/", env!("CARGO_PKG_VERSION")))
        .build()?;
    let response = client
        .get(url)
        .header("accept", "application/json")
        .send()
        .await?;
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
    let settings = config::load(flags, &Process)?.settings;
    let mut address = settings.bind_address;
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => IpAddr::from([127, 0, 0, 1]),
            IpAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    let base = settings.service.base();
    Ok(format!("http://{address}/{base}")
        .trim_end_matches('/')
        .to_owned())
}
