//! Owners and event lists on GitHub hosts, and the tokens and secrets that go with them.

use grip_github::{EventSource, Login, Owner};
use grip_types::Service;

use super::{Kind, ParseError, SecretText, Shape, each, items, kinds, unique};

/// The host that a token belongs to where it names none.
pub(crate) const PUBLIC: &str = "github.com";

/// One entry of `index_github`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexedOwner {
    pub(crate) host: Service,
    pub(crate) owner: Owner,
}

/// One entry of `github_token`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostToken {
    /// None: it is for github.com.
    pub(crate) host: Option<Service>,
    pub(crate) token: SecretText,
}

/// What `watch_github` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) host: Service,
    /// None: only webhooks report its pushes.
    pub(crate) sources: Vec<EventSource>,
}

/// Lists of events of one GitHub host.
pub(crate) struct WatchedLists;
/// Passwords.
pub(crate) struct Secrets;

kinds! {
    Vec<IndexedOwner> => Vec<IndexedOwner>: List, "PLACES",
        "comma-separated `host/orgs/name`, `host/users/name` or `host`", indexed_owners;
    WatchedLists => Option<Watched>: List, "PLACES",
        "comma-separated `host/events`, `host/orgs/name`, `host/users/name`, \
         `host/repos/owner/name` or `host`", watched;
    Vec<HostToken> => Vec<HostToken>: SecretList, "TOKENS",
        "comma-separated `token` or `host=token`", tokens;
    Secrets => Vec<SecretText>: SecretList, "SECRETS", "comma-separated secrets", secrets;
}

/// Reads `host`, `host/orgs/name` and `host/users/name` items.
fn indexed_owners(text: &str) -> Result<Vec<IndexedOwner>, ParseError> {
    let found = each(text, |item| {
        let (host, path) = host_and_path(item)?;
        let owner = owner(&host, &path)?;
        Ok::<_, String>(IndexedOwner { host, owner })
    })?;
    unique(found, |IndexedOwner { host, owner }| match owner {
        Owner::Org(name) => format!("{host}/orgs/{name}"),
        Owner::User(name) => format!("{host}/users/{name}"),
        Owner::Everything => host.to_string(),
    })
}

/// Reads `host/events`, `host/orgs/name`, `host/users/name`, `host/repos/owner/name` and `host`
/// items, all of one host: GitHub's numbers mean something within one host only.
fn watched(text: &str) -> Result<Option<Watched>, ParseError> {
    let found = each(text, |item| {
        let (host, path) = host_and_path(item)?;
        let source = (!path.is_empty()).then(|| path.parse::<EventSource>());
        let source = source.transpose().map_err(|_| {
            format!(
                "which is none of {host}/events, {host}/orgs/NAME, {host}/users/NAME and \
                 {host}/repos/OWNER/NAME"
            )
        })?;
        Ok::<_, String>((host, source))
    })?;
    let (hosts, sources): (Vec<_>, Vec<_>) = found.into_iter().unzip();
    let Some(host) = hosts.first().cloned() else {
        return Ok(None);
    };
    let is_other = |other: &&Service| other.http_url() != host.http_url();
    if let Some(other) = hosts.iter().find(is_other) {
        return Err(format!("names {host} and {other}; a node watches one host").into());
    }
    let sources = sources.into_iter().flatten().collect();
    let sources = unique(sources, |source| format!("{host}/{source}"))?;
    Ok(Some(Watched { host, sources }))
}

/// The host at the start of an item, and what is behind it.
fn host_and_path(item: &str) -> Result<(Service, String), String> {
    let (scheme, rest) = match item.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), item),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = Service::parse(&format!("{scheme}{host}"))
        .map_err(|_| "which does not begin with a host such as github.com".to_owned())?;
    Ok((host, path.trim_end_matches('/').to_owned()))
}

fn owner(host: &Service, path: &str) -> Result<Owner, String> {
    let login = |name: &str| {
        Login::parse(name).map_err(|_| format!("where `{name}` is no name of an owner"))
    };
    match path.split_once('/') {
        Some(("orgs", name)) => login(name).map(Owner::Org),
        Some(("users", name)) => login(name).map(Owner::User),
        None if path.is_empty() && host.authority() == PUBLIC => Err(format!(
            "which nobody can index whole: name owners, such as {PUBLIC}/orgs/acme"
        )),
        None if path.is_empty() => Ok(Owner::Everything),
        None if login(path).is_ok() => Err(format!(
            "which leaves open what {path} is: write {host}/orgs/{path} or {host}/users/{path}"
        )),
        _ => Err("which is none of host, host/orgs/name and host/users/name".to_owned()),
    }
}

/// Reads tokens, each with the host in front that it is for: `ghe.example.com=token`. A file may
/// have a line for each, and comments.
fn tokens(text: &str) -> Result<Vec<HostToken>, ParseError> {
    let lines = text.lines().filter(|line| !line.trim().starts_with('#'));
    let all = lines.flat_map(items).enumerate();
    all.map(|(index, item)| {
        // The error does not show the token.
        let wrong = |what: &str| {
            let place = index + 1;
            ParseError(format!(
                "has {what} at place {place}; write token or host=token"
            ))
        };
        let (host, token) = match item.split_once('=') {
            Some((host, token)) => (Some(Service::parse(host.trim())), token.trim()),
            None => (None, item.as_str()),
        };
        let host = host.transpose().map_err(|_| wrong("a wrong host"))?;
        if token.is_empty() || !token.bytes().all(|b| b.is_ascii_graphic()) {
            return Err(wrong("no token"));
        }
        let token = SecretText::new(token);
        Ok(HostToken { host, token })
    })
    .collect()
}

/// Reads secrets: one a line where there are lines, and else separated by commas.
fn secrets(text: &str) -> Result<Vec<SecretText>, ParseError> {
    let separator = if text.contains('\n') { '\n' } else { ',' };
    let given = text
        .split(separator)
        .map(str::trim)
        .filter(|item| !item.is_empty());
    let secrets: Vec<_> = given.map(SecretText::new).collect();
    if secrets.is_empty() && !text.is_empty() {
        return Err("holds no secret".into());
    }
    Ok(secrets)
}
