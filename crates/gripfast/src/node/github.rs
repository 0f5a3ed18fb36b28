//! Gateways to the configured GitHub hosts: one per host, so that its budget is counted once.

use anyhow::Context as _;
use grip_github::{GitHub, Token};
use grip_types::{Domain, Service};

use super::base::Base;
use crate::config::GithubHost;

/// A gateway to each host.
pub(super) struct Gateways(Vec<(GithubHost, GitHub)>);

impl Gateways {
    pub(super) fn open(base: &Base<'_>) -> anyhow::Result<Self> {
        let open = |host: &GithubHost| {
            let name = host.service.authority();
            let api = host.api.host_str().context("an API has a host")?;
            let api = Domain::parse(api).context("an API has a host")?;
            let egress = base
                .egress(vec![api])
                .with_context(|| format!("cannot set up requests to {name}"))?;
            let tokens = host.tokens.iter().map(|token| Token::new(token.reveal()));
            let tokens: Result<Vec<Token>, _> = tokens.collect();
            let options = grip_github::Options {
                api: host.api.clone(),
                tokens: tokens.with_context(|| format!("a token for {name} cannot be one"))?,
                ..grip_github::Options::default()
            };
            let github = GitHub::new(options, egress);
            let github = github.with_context(|| format!("cannot ask {name}"))?;
            Ok((host.clone(), github))
        };
        let hosts = base.settings.github_hosts();
        let gateways: anyhow::Result<Vec<_>> = hosts.iter().map(open).collect();
        gateways.map(Self)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &(GithubHost, GitHub)> {
        self.0.iter()
    }

    /// The gateway to this host.
    pub(super) fn to(&self, host: &Service) -> Option<&GitHub> {
        let mut all = self.0.iter();
        let found = all.find(|(known, _)| known.service.http_url() == host.http_url());
        found.map(|(_, github)| github)
    }
}
