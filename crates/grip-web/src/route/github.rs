//! What of GitHub a path names.

/// A path below `/api/v1/github/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GitHub<'a> {
    /// `events`
    Events,
    /// `users/<login or id>`, still percent-encoded.
    User(&'a str),
    /// `repos/<owner>/<name>` or `repos/<id>`, still percent-encoded.
    Repository(&'a str),
    /// `avatars/<id of a user>`
    Avatar(&'a str),
    /// `stats`
    Stats,
    /// `gaps`
    Gaps,
    /// `status`
    Status,
    /// `gaps/close`: for the operator.
    CloseGaps,
    /// `retention`: for the operator.
    Retention,
    /// `reextract`: for the operator.
    Reextract,
    Nowhere,
}

impl<'a> GitHub<'a> {
    /// Reads what follows `/api/v1/github`.
    pub(super) fn parse(rest: &'a str) -> Self {
        let rest = rest.trim_matches('/');
        match rest.split_once('/') {
            Some(("repos", repository)) => return Self::Repository(repository),
            Some(("users", user)) if !user.contains('/') => return Self::User(user),
            Some(("avatars", user)) if !user.contains('/') => return Self::Avatar(user),
            _ => {}
        }
        match rest {
            "events" => Self::Events,
            "stats" => Self::Stats,
            "gaps" => Self::Gaps,
            "gaps/close" => Self::CloseGaps,
            "status" => Self::Status,
            "retention" => Self::Retention,
            "reextract" => Self::Reextract,
            _ => Self::Nowhere,
        }
    }

    /// Says whether it changes something.
    pub(crate) fn is_order(self) -> bool {
        matches!(self, Self::CloseGaps | Self::Retention | Self::Reextract)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_is_told_apart_and_the_rest_leads_nowhere() {
        for (rest, found) in [
            ("/events", GitHub::Events),
            ("/events/", GitHub::Events),
            ("/users/octocat", GitHub::User("octocat")),
            ("/users/a%2Fb", GitHub::User("a%2Fb")),
            ("/repos/acme/tides", GitHub::Repository("acme/tides")),
            ("/repos/7", GitHub::Repository("7")),
            ("/avatars/1", GitHub::Avatar("1")),
            ("/gaps", GitHub::Gaps),
            ("/gaps/close", GitHub::CloseGaps),
            ("", GitHub::Nowhere),
            ("/", GitHub::Nowhere),
            ("/users", GitHub::Nowhere),
            ("/users/", GitHub::Nowhere),
            ("/users/a/b", GitHub::Nowhere),
            ("/avatars/1/2", GitHub::Nowhere),
            ("/Events", GitHub::Nowhere),
            ("/events/../stats", GitHub::Nowhere),
        ] {
            assert_eq!(GitHub::parse(rest), found, "{rest}");
        }
    }
}
