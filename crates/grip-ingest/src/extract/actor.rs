//! The actor of a push, from the URL that GitHub gives.

/// Who has pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A person, with the name in the URL.
    User(String),
    /// An app, which has no profile worth asking for.
    Bot,
    /// An organisation or anything else.
    Unknown,
    Missing,
}

impl Actor {
    /// Reads `https://HOST/users/NAME`; on a GitHub Enterprise, the API is below `/api/v3`.
    pub(super) fn of(url: Option<&str>) -> Self {
        let Some(url) = url else {
            return Self::Missing;
        };
        match name(url) {
            None => Self::Unknown,
            Some(name) if is_bot(name) => Self::Bot,
            Some(name) => Self::User(name.to_owned()),
        }
    }
}

fn name(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://");
    let rest = rest.or_else(|| url.strip_prefix("http://"))?;
    let (host, path) = rest.split_once('/')?;
    let path = path.strip_prefix("api/v3/").unwrap_or(path);
    let name = path.strip_prefix("users/")?;
    (!host.is_empty() && !name.is_empty() && !name.contains('/')).then_some(name)
}

fn is_bot(name: &str) -> bool {
    name.ends_with("[bot]") || name.to_ascii_lowercase().ends_with("%5bbot%5d")
}
