//! Addresses of what a text in a repository links to.

use grip_browse::markdown::Links;

use super::encode_path;

/// Relative links of a file in a directory of one commit.
pub(crate) struct RepositoryLinks {
    pub(crate) base: String,
    /// The revision, encoded.
    pub(crate) at: String,
    pub(crate) directory: String,
}

impl RepositoryLinks {
    fn lead(&self, kind: &str, link: &str) -> Option<String> {
        let end = link.find(['?', '#']).unwrap_or(link.len());
        let (path, rest) = link.split_at(end);
        let path = String::from_utf8(grip_types::percent_decode(path)?).ok()?;
        let path = resolve(&self.directory, &path)?;
        let fragment = rest.find('#').map_or("", |at| &rest[at..]);
        let (base, at) = (&self.base, &self.at);
        Some(format!(
            "{base}/{kind}/{at}/{}{fragment}",
            encode_path(&path)
        ))
    }
}

impl Links for RepositoryLinks {
    fn page(&self, path: &str) -> Option<String> {
        self.lead("blob", path)
    }

    fn raw(&self, path: &str) -> Option<String> {
        self.lead("raw", path)
    }
}

/// The path from the top of the repository; `None` for one that leads out of it.
fn resolve(directory: &str, path: &str) -> Option<String> {
    let from = if path.starts_with('/') { "" } else { directory };
    let mut parts: Vec<&str> = Vec::new();
    for part in from.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_within_the_repository() {
        let links = RepositoryLinks {
            base: "/r".into(),
            at: "main".into(),
            directory: "docs/a".into(),
        };
        let page = |link| links.page(link);
        assert_eq!(
            page("b.md#x").as_deref(),
            Some("/r/blob/main/docs/a/b.md#x")
        );
        assert_eq!(page("../c%20d").as_deref(), Some("/r/blob/main/docs/c%20d"));
        assert_eq!(page("/top?x=\"").as_deref(), Some("/r/blob/main/top"));
        assert_eq!(page("../../../etc/passwd"), None);
        assert_eq!(
            links.raw("./p.png").as_deref(),
            Some("/r/raw/main/docs/a/p.png")
        );
    }
}
