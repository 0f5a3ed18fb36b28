//! The index of modules: its sources from the settings, and what the service tells it.

use std::sync::Arc;

use anyhow::Context as _;
use grip_github::GitHub;
use grip_index::{
    GitHubOptions, GitHubSource, Index, Source, SumDb, SumDbOptions,
    hosted::{self, Follower, Hosted, ModulePaths},
    proxy::{
        self, Proxy, Recorder, SumCheck, SumCheckParts, Upstream, UpstreamHost, UpstreamOptions,
        UpstreamParts,
    },
};
use grip_tasks::TaskGroup;
use grip_types::{Domain, ErrorChain};
use url::Url;

use super::{base::Base, github::Gateways};
use crate::{
    config::{GithubHost, options},
    private_file,
};

/// The file in the data directory with the key that signs the checksum database.
const SUMDB_KEY_FILE: &str = "sumdb.key";

/// The directory in the data directory with modules that were fetched from other hosts.
const MODULES_DIR: &str = "modules";

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
    let proxy = if index.go_proxy {
        Some(proxy(base, hosted, gateways).await?)
    } else {
        None
    };
    Ok(Indexed {
        index: Some(started),
        proxy,
    })
}

/// Modules for the go command, with their checksums logged.
async fn proxy(base: &Base<'_>, hosted: Hosted, gateways: &Gateways) -> anyhow::Result<Proxy> {
    let index = &base.settings.index;
    let sumdb = if index.sumdb {
        sumdb(base).await?
    } else {
        None
    };
    let mut options = proxy::Options::default();
    options.max_zip_bytes = index.go_proxy_max_zip_bytes;
    options.zips_at_once = index.go_proxy_max_zips;
    options.stall = base.settings.timeouts.stall_timeout;
    let upstream = upstream(base, gateways).await?;
    let proxy = Proxy::new(base.db.clone(), hosted, sumdb, upstream, options);
    if let Some(recorder) = Recorder::new(proxy.clone()) {
        let token = base.back.token();
        base.back.spawn("sumdb.record", recorder.run(token));
    }
    Ok(proxy)
}

/// Modules of the GitHub hosts whose repositories are indexed; none where there are none.
async fn upstream(base: &Base<'_>, gateways: &Gateways) -> anyhow::Result<Option<Upstream>> {
    let index = &base.settings.index;
    let mut hosts = Vec::new();
    for (host, gateway) in gateways.all() {
        if index.go_proxy_github && !host.owners.is_empty() {
            hosts.push(upstream_host(base, host, gateway)?);
        }
    }
    if hosts.is_empty() {
        return Ok(None);
    }
    let checker = index.go_proxy_sumdb.clone().map(|key| {
        let place = key
            .url()
            .host_str()
            .and_then(|host| Domain::parse(host).ok());
        let egress = base.egress(place.into_iter().collect())?;
        anyhow::Ok(SumCheck::new(SumCheckParts {
            key,
            egress,
            excepted: index.go_proxy_nosumdb.clone(),
        }))
    });
    let parts = UpstreamParts {
        hosts,
        repositories: base.repositories.clone(),
        directory: base.settings.storage.data_dir.join(MODULES_DIR),
        options: UpstreamOptions {
            cache_bytes: index.go_proxy_cache_bytes,
            bytes_per_hour: index.go_proxy_fetch_bytes_per_hour,
            max_zip_bytes: index.go_proxy_max_zip_bytes,
            stall: base.settings.timeouts.stall_timeout,
            ..UpstreamOptions::default()
        },
        checker: checker.transpose()?,
        group: base.front.child("go-proxy"),
    };
    let started = grip_tasks::spawn_blocking(move || Upstream::start(parts)).await?;
    let started =
        started.with_context(|| format!("cannot open {MODULES_DIR} in the data directory"));
    started.map(Some)
}

fn upstream_host(
    base: &Base<'_>,
    host: &GithubHost,
    gateway: &GitHub,
) -> anyhow::Result<UpstreamHost> {
    let url = Url::parse(&host.service.http_url()).context("a host makes a URL")?;
    let place = url.host_str().and_then(|host| Domain::parse(host).ok());
    Ok(UpstreamHost {
        name: host.service.authority().to_ascii_lowercase(),
        egress: base.egress(place.into_iter().collect())?,
        credentials: gateway.clone_credentials().to_vec(),
        url,
    })
}

/// The checksum database. One that cannot be used is no reason not to serve modules: clients that
/// check are refused, which the log and the status explain.
async fn sumdb(base: &Base<'_>) -> anyhow::Result<Option<SumDb>> {
    let data_dir = &base.settings.storage.data_dir;
    let seed = private_file::seed(&data_dir.join(SUMDB_KEY_FILE))?;
    let opened = SumDb::open(SumDbOptions {
        db: base.db.clone(),
        name: base.settings.index.sumdb_name.clone(),
        default_name: ModulePaths::of(base.service).host().to_owned(),
        seed,
        directory: data_dir.join("sumdb"),
        group: base.front.child("sumdb"),
    });
    match opened.await {
        Ok(sumdb) => {
            let verifier = sumdb.verifier();
            tracing::info!(%verifier, "checksums of modules are logged");
            Ok(Some(sumdb))
        }
        Err(error) => {
            tracing::error!(error = %ErrorChain(&error), "checksums of modules are not logged");
            Ok(None)
        }
    }
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
