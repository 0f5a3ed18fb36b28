//! The settings of the index and of the database it is kept in.

use std::path::Path;

use grip_types::Service;
use url::Url;

use super::{Resolver, is_derived};
use crate::config::{
    Source, Surroundings, Value,
    github::{self, HostToken, Place},
    parse,
    settings::{Database, DatabasePlace, GithubHost, GoProxy, Index},
};

/// The go command refuses larger modules.
const GO_MOST: u64 = 500 << 20;

impl Resolver<'_> {
    pub(super) fn database(&mut self, data_dir: &Path) -> Database {
        // A derived place is not read back: a directory may have a name that no URL can say.
        let named = (!is_derived(self.value("database_url")))
            .then(|| self.optional("database_url", parse::database_url))
            .flatten();
        let place = named.unwrap_or_else(|| {
            let file = data_dir.join("gripfast.sqlite");
            self.derive("database_url", &format!("sqlite:{}", file.display()));
            DatabasePlace::File(file)
        });
        Database {
            place,
            connections: self.count("database_connections"),
            node_name: self.optional("node_name", parse::name),
        }
    }

    pub(super) fn index(&mut self, around: &dyn Surroundings) -> Index {
        let places = self.optional("index_github", github::places);
        let tokens = self.github_tokens(around);
        let modules = self.optional("index_modules", parse::module_owners);
        Index {
            enabled: self.get("index_enabled", parse::boolean),
            github: self.hosts(places.unwrap_or_default(), tokens),
            modules: modules.unwrap_or_default(),
            re_indexing_period: self.get("re_indexing_period", parse::duration),
            indexing_ttl: self.get("indexing_ttl", parse::duration),
            items_to_take: self.count("number_of_items_to_take"),
            workers: self.count("index_workers"),
            go_proxy: self.go_proxy(),
        }
    }

    fn go_proxy(&mut self) -> Option<GoProxy> {
        let zip_bytes = self.get("go_proxy_max_zip_bytes", parse::bytes);
        if zip_bytes > GO_MOST {
            self.complain(
                "go_proxy_max_zip_bytes",
                "is more than the go command takes, which is 500 MiB",
            );
        }
        self.get("go_proxy", parse::boolean).then(|| GoProxy {
            zip_bytes,
            zips: self.count("go_proxy_max_zips"),
        })
    }

    /// Brings owners and tokens of one host together.
    fn hosts(&mut self, places: Vec<Place>, tokens: Vec<HostToken>) -> Vec<GithubHost> {
        let mut hosts: Vec<GithubHost> = Vec::new();
        for Place { host, owner } in places {
            let known = hosts.iter_mut().find(|h| is_same(&h.service, &host));
            match known {
                Some(known) => known.owners.push(owner),
                None => hosts.push(GithubHost {
                    api: api(&host),
                    service: host,
                    owners: vec![owner],
                    tokens: Vec::new(),
                }),
            }
        }
        let is_idle = hosts.is_empty();
        for HostToken { host, token } in tokens {
            let name = host.map_or_else(|| github::PUBLIC.to_owned(), |host| host.authority());
            match hosts.iter_mut().find(|h| h.service.authority() == name) {
                Some(host) => host.tokens.push(token),
                None if is_idle => {}
                None => self.warnings.push(format!(
                    "{}: github_token: a token is for {name}, of which nothing is indexed; write \
                     host=token for another host",
                    self.value("github_token").source
                )),
            }
        }
        hosts
    }

    fn github_tokens(&mut self, around: &dyn Surroundings) -> Vec<HostToken> {
        if let Some(tokens) = self.optional("github_token", github::tokens) {
            return tokens;
        }
        if let Some(path) = self.value("github_token_file").text.clone() {
            return self.token_file(Path::new(&path), "github_token_file", around);
        }
        let variables = around.variables();
        let credentials = variables
            .iter()
            .find(|(name, _)| name == "CREDENTIALS_DIRECTORY");
        match credentials.map(|(_, dir)| Path::new(dir).join("github_token")) {
            Some(path) => self.token_file(&path, "github_token", around),
            None => Vec::new(),
        }
    }

    /// Reads tokens from a file, which must be there if a setting of its own names it.
    fn token_file(
        &mut self,
        path: &Path,
        key: &'static str,
        around: &dyn Surroundings,
    ) -> Vec<HostToken> {
        let text = match around.read(path) {
            Ok(text) => text,
            Err(error) => {
                let may_be_absent = key == "github_token";
                if error.kind() != std::io::ErrorKind::NotFound || !may_be_absent {
                    self.mistakes
                        .push(format!("{}: {key} cannot be read: {error}", path.display()));
                }
                return Vec::new();
            }
        };
        let lines = text.lines().filter(|line| !line.trim().starts_with('#'));
        let text = lines.collect::<Vec<_>>().join(",");
        match github::tokens(&text) {
            Ok(tokens) => {
                let source = Source::Credential {
                    path: path.to_owned(),
                };
                let text = Some(text);
                self.values.insert("github_token", Value { text, source });
                tokens
            }
            Err(complaint) => {
                self.mistakes
                    .push(format!("{}: {key} {complaint}", path.display()));
                Vec::new()
            }
        }
    }
}

fn is_same(one: &Service, other: &Service) -> bool {
    one.http_url() == other.http_url()
}

/// Where the API of a host begins.
fn api(host: &Service) -> Url {
    let text = match host.authority().as_str() {
        github::PUBLIC => "https://api.github.com/".to_owned(),
        _ => format!("{}/api/v3/", host.http_url()),
    };
    Url::parse(&text).expect("a host that was read makes a URL")
}
