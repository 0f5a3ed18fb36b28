//! Which lists of events on a GitHub host are read, and the secrets of its webhooks.

use grip_github::EventSource;
use grip_types::Service;

use super::{parse::list, settings::Secret};

/// What `watch_github` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(crate) host: Service,
    /// None: only webhooks tell of it.
    pub(crate) sources: Vec<EventSource>,
}

/// Reads `host/events`, `host/orgs/name`, `host/users/name`, `host/repos/owner/name` and `host`
/// items, all of one host: GitHub's numbers mean something within one host only.
pub(crate) fn watched(text: &str) -> Result<Option<Watched>, String> {
    let mut found: Option<Watched> = None;
    for item in list(text) {
        let (host, source) = place(&item).map_err(|why| format!("has `{item}`, {why}"))?;
        let all = found.get_or_insert_with(|| Watched {
            host: host.clone(),
            sources: Vec::new(),
        });
        if all.host.http_url() != host.http_url() {
            return Err(format!(
                "names {} and {host}; a node watches one host",
                all.host
            ));
        }
        match source {
            Some(source) if all.sources.contains(&source) => {
                return Err(format!("names `{item}` twice"));
            }
            source => all.sources.extend(source),
        }
    }
    Ok(found)
}

fn place(item: &str) -> Result<(Service, Option<EventSource>), String> {
    let (scheme, rest) = match item.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), item),
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = Service::parse(&format!("{scheme}{host}"))
        .map_err(|_| "which does not begin with a host such as github.com".to_owned())?;
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return Ok((host, None));
    }
    let source = path.parse().map_err(|_| {
        format!(
            "which is none of {host}/events, {host}/orgs/NAME, {host}/users/NAME and \
             {host}/repos/OWNER/NAME"
        )
    })?;
    Ok((host, Some(source)))
}

/// Reads secrets: one a line where there are lines, and else separated by commas.
pub(crate) fn secrets(text: &str) -> Result<Vec<Secret>, String> {
    let items: Vec<String> = match text.contains('\n') {
        true => text.lines().map(|line| line.trim().to_owned()).collect(),
        false => list(text),
    };
    let secrets: Vec<Secret> = items
        .into_iter()
        .filter(|item| !item.is_empty())
        .map(Secret::new)
        .collect();
    match secrets.is_empty() {
        true => Err("holds no secret".to_owned()),
        false => Ok(secrets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_one_host_are_read_in_their_order() {
        let text = "github.com/events, GitHub.com/orgs/acme/,github.com/repos/acme/tides,\
                    github.com/users/bob";
        let found = watched(text).unwrap().unwrap();
        let shown: Vec<_> = found.sources.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["events", "orgs/acme", "repos/acme/tides", "users/bob"]
        );
        assert_eq!(found.host.http_url(), "https://github.com");
        let alone = watched("http://127.0.0.1:4000").unwrap().unwrap();
        assert_eq!(alone.sources, []);
        assert_eq!(watched(" , "), Ok(None));
    }

    #[test]
    fn a_wrong_entry_names_itself_and_what_would_be_right() {
        for (text, hint) in [
            ("github.com/acme", "github.com/orgs/NAME"),
            ("github.com/repos/acme", "github.com/repos/OWNER/NAME"),
            ("github.com/orgs/..", "github.com/orgs/NAME"),
            ("/orgs/acme", "does not begin with a host"),
        ] {
            let complaint = watched(text).unwrap_err();
            assert!(complaint.contains(&format!("`{text}`")), "{complaint}");
            assert!(complaint.contains(hint), "{text}: {complaint}");
        }
        let two = watched("github.com/orgs/a,ghe.example/orgs/a").unwrap_err();
        assert!(two.contains("one host"), "{two}");
        let twice = watched("github.com/orgs/a,github.com/orgs/a").unwrap_err();
        assert!(twice.contains("twice"), "{twice}");
    }

    #[test]
    fn a_secret_may_have_a_comma_where_it_has_a_line_of_its_own() {
        let revealed = |text| {
            let found = secrets(text).unwrap();
            found
                .iter()
                .map(|s| s.reveal().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(revealed("a, b=="), ["a", "b=="]);
        assert_eq!(revealed("a,b\n\nc \n"), ["a,b", "c"]);
        assert!(secrets(" ,").is_err() && secrets("\n").is_err());
    }
}
