//! The next page, as `Link` names it.

use http::{HeaderMap, header::LINK};
use url::Url;

use crate::error::GitHubError;

/// Links in one answer that are looked at.
const MAX_LINKS: usize = 16;

/// The URL of the next page after `asked`, if there is one.
///
/// It must be one below `base` and another than `asked`.
pub(crate) fn next(
    headers: &HeaderMap,
    base: &Url,
    asked: &Url,
) -> Result<Option<Url>, GitHubError> {
    let values = headers.get_all(LINK).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let mut links = texts.flat_map(|text| text.split(',')).take(MAX_LINKS);
    let Some(target) = links.find_map(next_target) else {
        return Ok(None);
    };
    let next = asked.join(target).ok().filter(|next| is_below(next, base));
    match next {
        Some(next) if next == *asked => Err(GitHubError::malformed(
            "the next page is the one that was asked for",
        )),
        Some(next) => Ok(Some(next)),
        None => Err(GitHubError::malformed(
            "the next page is not part of the API",
        )),
    }
}

/// The target of one link, if it is the next page.
fn next_target(link: &str) -> Option<&str> {
    let (target, parameters) = link.trim().strip_prefix('<')?.split_once('>')?;
    let mut parameters = parameters.split(';').map(str::trim);
    let is_next = parameters.any(|parameter| {
        let (name, value) = parameter.split_once('=').unwrap_or_default();
        name.trim().eq_ignore_ascii_case("rel")
            && value.trim().trim_matches('"').eq_ignore_ascii_case("next")
    });
    is_next.then_some(target)
}

/// Whether `url` is a part of the API at `base`.
pub(crate) fn is_below(url: &Url, base: &Url) -> bool {
    url.origin() == base.origin()
        && url.username().is_empty()
        && url.password().is_none()
        && url.path().starts_with(base.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: &str = "https://ghe.example/api/v3/orgs/a/repos?page=1";

    fn read(link: &str) -> Result<Option<String>, GitHubError> {
        let mut headers = HeaderMap::new();
        headers.insert(LINK, link.parse().unwrap());
        let base = Url::parse("https://ghe.example/api/v3/").unwrap();
        let asked = Url::parse(ASKED).unwrap();
        next(&headers, &base, &asked).map(|next| next.map(String::from))
    }

    #[test]
    fn the_next_page_is_found_among_the_links() {
        let next = "https://ghe.example/api/v3/orgs/a/repos?page=2";
        for link in [
            format!("<{next}>; rel=\"next\""),
            format!("<{ASKED}>; rel=\"first\", <{next}>; rel=\"next\", <{ASKED}>; rel=\"last\""),
            format!("<{next}>;title=x; REL=next"),
            "<?page=2>; rel=\"next\"".to_owned(),
        ] {
            assert_eq!(read(&link).unwrap().as_deref(), Some(next), "{link}");
        }
        for link in [
            "",
            "nonsense",
            "<>",
            "<x; rel=next",
            "<x>; rel=prev",
            ",,,;;;",
        ] {
            assert_eq!(read(link).unwrap(), None, "{link}");
        }
    }

    #[test]
    fn a_next_page_elsewhere_or_nowhere_is_nonsense() {
        for next in [
            "https://evil.example/api/v3/orgs/a/repos?page=2",
            "http://ghe.example/api/v3/orgs/a/repos?page=2",
            "https://ghe.example:8443/api/v3/orgs/a/repos?page=2",
            "https://u@ghe.example/api/v3/orgs/a/repos?page=2",
            "//evil.example/api/v3/",
            "https://ghe.example/other",
            "https://ghe.example/api/v3/../../other",
            "http://[::1",
            ASKED,
        ] {
            let read = read(&format!("<{next}>; rel=\"next\""));
            assert!(matches!(read, Err(GitHubError::Malformed { .. })), "{next}");
        }
    }
}
