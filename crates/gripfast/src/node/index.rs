//! The index of modules: its sources from the settings, and what the service tells it.

use std::sync::Arc;

use anyhow::Context as _;
use grip_github::GitHub;
use grip_index::{
    GitHubOptions, GitHubSource, Index, Source,
    hosted::{self, Follower, Hosted, ModulePaths},
    proxy::{self, Proxy},
};
use grip_tasks::TaskGroup;

use super::{base::Base, github::Gateways};
use crate::config::{GithubHost, options};

/// What is served of it; nothing where it is switched off.
#[derive(Default)]
pub(super) struct Indexed {
    pub(super) index: Option<Arc<Index>>,
    pub(super) proxy: Option<Proxy>,
}

/// Starts to index what the settings name, unless that is switched off.
pub(super) async fn start(base: &Base<'_>, gateways: &Gateways) -> anyhow::Result<Indexed> {
    let (index, work) = (&base.settings.index, base.front.child("index"));
    if !index.index_enabled {
        tracing::info!("the index is switched off");
        return Ok(Indexed::default());
    }
    let hosted = hosted(base, &work);
    let mut sources: Vec<Arc<dyn Source>> = vec![Arc::new(hosted.clone())];
    for (host, gateway) in gateways.all() {
        sources.extend(github(host, gateway, index));
    }
    // Before the index is there, so that no change falls in between.
    let changes = base.grasp.changes();
    let started = Index::start(grip_index::Parts {
        db: base.db.clone(),
        queue: base.queue.clone(),
        sources,
        options: grip_index::Options {
            indexing_ttl: index.indexing_ttl,
            re_indexing_period: index.re_indexing_period,
            number_of_items_to_take: index.number_of_items_to_take,
            workers: index.index_workers,
            left_sources: index.index_left_sources,
            ..grip_index::Options::default()
        },
        group: work,
    });
    let started = Arc::new(started.await.context("cannot start the index")?);
    let follower = Follower {
        index: Arc::clone(&started),
        hosted: hosted.clone(),
        db: base.db.clone(),
    };
    let token = base.back.token();
    base.back
        .spawn("index.follow", follower.run(changes, token));
    let proxy = index.go_proxy.then(|| {
        let mut options = proxy::Options::default();
        options.max_zip_bytes = index.go_proxy_max_zip_bytes;
        options.zips_at_once = index.go_proxy_max_zips;
        options.stall = base.settings.timeouts.stall_timeout;
        Proxy::new(base.db.clone(), hosted, options)
    });
    Ok(Indexed {
        index: Some(started),
        proxy,
    })
}

fn hosted(base: &Base<'_>, work: &TaskGroup) -> Hosted {
    Hosted::new(hosted::Parts {
        repositories: base.repositories.clone(),
        served: Arc::new(base.grasp.clone()),
        module_paths: ModulePaths::of(base.service),
        claims: base.settings.index.index_modules.clone(),
        node: base.db.node().to_owned(),
        group: work.clone(),
    })
}

/// The sources of one host, which share its gateway.
fn github(
    host: &GithubHost,
    github: &GitHub,
    index: &options::Index,
) -> impl Iterator<Item = Arc<dyn Source>> {
    let name = host.service.authority();
    let options = GitHubOptions {
        private: index.index_github_private,
        filter: index.index_github_filter,
        ..GitHubOptions::default()
    };
    host.owners.iter().cloned().map(move |owner| {
        let options = options.clone();
        let source = GitHubSource::new(github.clone(), &name, owner, options);
        Arc::new(source) as Arc<dyn Source>
    })
}
