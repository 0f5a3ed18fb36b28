//! Which repositories of GitHub hosts are indexed, and the tokens to ask for them.

use grip_types::Service;

use super::{parse::list, settings::Secret};

/// The host that a token belongs to where it names none.
pub(super) const PUBLIC: &str = "github.com";
/// Longest login that is taken; GitHub's own are shorter.
const MAX_LOGIN: usize = 100;

/// One entry of `index_github`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: Service,
    pub(crate) owner: Owner,
}

/// Whose repositories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Org(String),
    User(String),
    /// All of a GitHub Enterprise.
    Everything,
}

/// One entry of `github_token`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostToken {
    /// None: it is for github.com.
    pub(crate) host: Option<Service>,
    pub(crate) token: Secret,
}

/// Reads `host`, `host/orgs/name` and `host/users/name` items.
pub(crate) fn places(text: &str) -> Result<Vec<Place>, String> {
    let mut found: Vec<Place> = Vec::new();
    for item in list(text) {
        let place = place(&item).map_err(|why| format!("has `{item}`, {why}"))?;
        if found.contains(&place) {
            return Err(format!("names `{item}` twice"));
        }
        found.push(place);
    }
    Ok(found)
}

fn place(item: &str) -> Result<Place, String> {
    let (scheme, rest) = match item.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), item),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = Service::parse(&format!("{scheme}{host}"))
        .map_err(|_| "which does not begin with a host such as github.com".to_owned())?;
    let owner = owner(&host, path.trim_end_matches('/'))?;
    Ok(Place { host, owner })
}

fn owner(host: &Service, path: &str) -> Result<Owner, String> {
    let login = |name: &str| match is_login(name) {
        true => Ok(name.to_owned()),
        false => Err(format!("where `{name}` is no name of an owner")),
    };
    match path.split_once('/') {
        Some(("orgs", name)) => login(name).map(Owner::Org),
        Some(("users", name)) => login(name).map(Owner::User),
        None if path.is_empty() && host.authority() == PUBLIC => Err(format!(
            "which nobody can index whole: name owners, such as {PUBLIC}/orgs/acme"
        )),
        None if path.is_empty() => Ok(Owner::Everything),
        None if is_login(path) => Err(format!(
            "which leaves open what {path} is: write {host}/orgs/{path} or {host}/users/{path}"
        )),
        _ => Err("which is none of host, host/orgs/name and host/users/name".to_owned()),
    }
}

fn is_login(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    let is_dots = name.bytes().all(|b| b == b'.');
    name.len() <= MAX_LOGIN && !is_dots && name.bytes().all(allowed)
}

/// Reads tokens, each with the host in front that it is for: `ghe.example.com=token`.
pub(crate) fn tokens(text: &str) -> Result<Vec<HostToken>, String> {
    list(text)
        .iter()
        .enumerate()
        .map(|(place, item)| {
            // What is wrong with it is said without saying what it is.
            let wrong = |what: &str| {
                format!(
                    "has {what} at place {}; write token or host=token",
                    place + 1
                )
            };
            let (host, token) = match item.split_once('=') {
                Some((host, token)) => {
                    let host = Service::parse(host.trim());
                    (Some(host.map_err(|_| wrong("a wrong host"))?), token.trim())
                }
                None => (None, item.as_str()),
            };
            let is_token = !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic());
            match is_token {
                true => Ok(HostToken {
                    host,
                    token: Secret::new(token),
                }),
                false => Err(wrong("no token")),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_hosts_are_told_apart() {
        let text = "github.com/orgs/acme, GitHub.com/users/bob/,ghe.corp.example,\
                    http://127.0.0.1:4000/orgs/x";
        let found = places(text).unwrap();
        let shown: Vec<_> = found
            .iter()
            .map(|p| format!("{} {:?}", p.host.http_url(), p.owner))
            .collect();
        assert_eq!(
            shown,
            [
                "https://github.com Org(\"acme\")",
                "https://github.com User(\"bob\")",
                "https://ghe.corp.example Everything",
                "http://127.0.0.1:4000 Org(\"x\")",
            ]
        );
    }

    #[test]
    fn a_wrong_entry_names_itself_and_what_would_be_right() {
        for (text, hint) in [
            ("github.com", "github.com/orgs/acme"),
            ("github.com/acme", "github.com/users/acme"),
            ("github.com/acme/repo", "none of host"),
            ("github.com/orgs/a/b", "`a/b` is no name"),
            ("github.com/orgs/..", "`..` is no name"),
            ("github.com/orgs/", "which leaves open"),
            ("/orgs/acme", "does not begin with a host"),
        ] {
            let complaint = places(&format!("github.com/users/z,{text}")).unwrap_err();
            assert!(complaint.contains(&format!("`{text}`")), "{complaint}");
            assert!(complaint.contains(hint), "{text}: {complaint}");
        }
        assert!(places("a.example,a.example").unwrap_err().contains("twice"));
    }

    #[test]
    fn tokens_say_which_host_they_are_for_and_never_show_themselves() {
        let found = tokens("ghp_abc, ghe.corp.example = ghp_def").unwrap();
        assert_eq!(found[0].host, None);
        assert_eq!(found[1].token.reveal(), "ghp_def");
        assert!(!format!("{found:?}").contains("ghp_"), "{found:?}");
        for text in ["ghe.example=", "a b=ghp_abc", "ghp abc"] {
            let complaint = tokens(text).unwrap_err();
            assert!(!complaint.contains("abc"), "{complaint}");
        }
    }
}
