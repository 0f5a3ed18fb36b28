//! URLs that are safe to print.

use std::fmt;

use url::Url;

/// Longest path that is printed.
const MAX_PATH: usize = 200;

/// A URL without what may be secret in it: no user name, password, query or fragment.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(pub &'a Url);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}://{}",
            self.0.scheme(),
            self.0.host_str().unwrap_or_default()
        )?;
        if let Some(port) = self.0.port() {
            write!(f, ":{port}")?;
        }
        let path = self.0.path();
        match path.char_indices().nth(MAX_PATH) {
            Some((end, _)) => write!(f, "{}…", &path[..end]),
            None => f.write_str(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out() {
        let url = Url::parse("https://me:pw@a.example:8443/x.git?token=secret#part").unwrap();
        assert_eq!(Shown(&url).to_string(), "https://a.example:8443/x.git");
        let url = Url::parse("http://[::1]/").unwrap();
        assert_eq!(Shown(&url).to_string(), "http://[::1]/");
    }

    #[test]
    fn long_paths_are_cut() {
        let url = Url::parse(&format!("http://a.example/{}", "x".repeat(5000))).unwrap();
        assert!(Shown(&url).to_string().chars().count() < 230);
    }
}
