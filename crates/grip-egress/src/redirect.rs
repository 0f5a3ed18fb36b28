//! Targets of redirects, and the rules for following them.

use http::{HeaderMap, Method, StatusCode, header::LOCATION};
use url::Url;

/// Why a redirect was not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedirectError {
    #[error("more than {0} redirects in a row")]
    TooMany(usize),
    #[error("the redirect names no place that can be read")]
    NoLocation,
    #[error("the redirect leads from https to http")]
    Downgrade,
    #[error("the redirect of a POST leads to another service of the host")]
    OtherService,
    #[error("status {0} asks for another kind of request")]
    OtherRequest(StatusCode),
}

/// Says whether `status` sends the asker elsewhere.
pub(crate) fn is_redirect(status: StatusCode) -> bool {
    status.is_redirection() && !matches!(status.as_u16(), 300 | 304 | 305 | 306)
}

/// The place that an answer with a redirect from `from` names, if the rules for a request of
/// this method let us follow.
///
/// Whether that place may be asked at all is for the guard to say.
pub(crate) fn target(
    method: &Method,
    from: &Url,
    status: StatusCode,
    headers: &HeaderMap,
) -> Result<Url, RedirectError> {
    if !matches!(status.as_u16(), 301 | 302 | 307 | 308) {
        return Err(RedirectError::OtherRequest(status));
    }
    let mut to = headers
        .get(LOCATION)
        .and_then(|place| place.to_str().ok())
        .filter(|place| !place.is_empty())
        .and_then(|place| from.join(place).ok())
        .ok_or(RedirectError::NoLocation)?;
    to.set_fragment(None);
    if from.scheme() == "https" && to.scheme() == "http" {
        return Err(RedirectError::Downgrade);
    }
    if is_changing(method) && last_segment(from) != last_segment(&to) {
        return Err(RedirectError::OtherService);
    }
    Ok(to)
}

/// Says whether a request has a body that another service could mistake for its own.
fn is_changing(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD)
}

fn last_segment(url: &Url) -> Option<&str> {
    url.path_segments()?.next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(
        method: Method,
        from: &str,
        status: u16,
        place: &str,
    ) -> Result<String, RedirectError> {
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, place.parse().unwrap());
        let status = StatusCode::from_u16(status).unwrap();
        target(&method, &Url::parse(from).unwrap(), status, &headers).map(String::from)
    }

    fn get(from: &str, place: &str) -> Result<String, RedirectError> {
        follow(Method::GET, from, 302, place)
    }

    #[test]
    fn relative_places_are_read_against_the_url_that_was_asked() {
        for (place, to) in [
            ("/b/c", "http://a.example:8080/b/c"),
            ("c", "http://a.example:8080/x/c"),
            ("//b.example/c", "http://b.example/c"),
            ("https://b.example/c#part", "https://b.example/c"),
            ("?q=1", "http://a.example:8080/x/y?q=1"),
            (r"\\b.example\c", "http://b.example/c"),
        ] {
            assert_eq!(
                get("http://a.example:8080/x/y", place).as_deref(),
                Ok(to),
                "{place}"
            );
        }
    }

    #[test]
    fn a_redirect_never_leads_from_https_to_http() {
        let from = "https://a.example/x";
        assert_eq!(
            get(from, "http://a.example/x"),
            Err(RedirectError::Downgrade)
        );
        assert!(get(from, "https://b.example/x").is_ok());
        assert!(get("http://a.example/x", "https://a.example/x").is_ok());
    }

    #[test]
    fn a_post_stays_with_the_service_it_was_meant_for() {
        let from = "https://a.example/r.git/git-upload-pack";
        let post = |place| follow(Method::POST, from, 307, place);
        assert!(post("https://b.example/other.git/git-upload-pack").is_ok());
        for place in [
            "/r.git/git-receive-pack",
            "/login",
            "/r.git/git-upload-pack/",
        ] {
            assert_eq!(post(place), Err(RedirectError::OtherService), "{place}");
        }
        assert!(follow(Method::GET, from, 302, "/login").is_ok());
    }

    #[test]
    fn statuses_that_would_change_the_request_are_not_followed() {
        for status in [301, 302, 307, 308] {
            assert!(follow(Method::POST, "http://a.example/x", status, "/y/x").is_ok());
        }
        assert_eq!(
            follow(Method::POST, "http://a.example/x", 303, "/y/x"),
            Err(RedirectError::OtherRequest(StatusCode::SEE_OTHER))
        );
        assert!(!is_redirect(StatusCode::NOT_MODIFIED));
        assert!(!is_redirect(StatusCode::MULTIPLE_CHOICES));
        assert!(is_redirect(StatusCode::SEE_OTHER));
    }

    #[test]
    fn a_redirect_to_nowhere_is_an_error() {
        let from = Url::parse("http://a.example/").unwrap();
        let mut headers = HeaderMap::new();
        let ask = |headers: &HeaderMap| target(&Method::GET, &from, StatusCode::FOUND, headers);
        assert_eq!(ask(&headers), Err(RedirectError::NoLocation));
        for place in [
            &b""[..],
            b"http://",
            b"http://[::1",
            b"http://a b/",
            b"\xff\xfe",
        ] {
            headers.insert(LOCATION, http::HeaderValue::from_bytes(place).unwrap());
            assert_eq!(ask(&headers), Err(RedirectError::NoLocation), "{place:?}");
        }
    }
}
