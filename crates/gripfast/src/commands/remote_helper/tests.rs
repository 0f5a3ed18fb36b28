use std::cell::RefCell;

use grip_testkit::events::Author;

use super::*;

const OLD: &str = "1111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222";

struct Fixed {
    manifest: Manifest,
    providers: Vec<Url>,
}

impl Fixed {
    fn new(refs: &[(&str, &str)], providers: &[&str]) -> Self {
        let owner = Author::new();
        let announcement = owner.announcement("grasp.example", "tides", Vec::new());
        let state = owner.state("tides", refs, Some("refs/heads/main"));
        Self {
            manifest: Manifest::make(announcement, Vec::new(), Some(state)).unwrap(),
            providers: providers.iter().map(|url| url.parse().unwrap()).collect(),
        }
    }
}

impl Source for Fixed {
    fn manifest(&self) -> anyhow::Result<Manifest> {
        Ok(self.manifest.clone())
    }

    fn providers(&self) -> anyhow::Result<Vec<Url>> {
        Ok(self.providers.clone())
    }
}

/// A host that was asked, for which objects, and whether in silence.
type Asked = (String, Vec<String>, bool);

/// What git hears, and which hosts were asked for what, when only those of `good` have it.
fn answers(source: &Fixed, commands: &str, good: &str) -> (anyhow::Result<String>, Vec<Asked>) {
    let asked = RefCell::new(Vec::new());
    let mut answers = Vec::new();
    let fetch = |url: &Url, oids: &[Oid], is_quiet| {
        let oids = oids.iter().map(ToString::to_string).collect();
        let host = url.host_str().unwrap_or_default().to_owned();
        asked.borrow_mut().push((host.clone(), oids, is_quiet));
        Ok(host == good)
    };
    let done = converse(commands.as_bytes(), &mut answers, source, fetch);
    let heard = done.map(|()| String::from_utf8(answers).unwrap());
    (heard, asked.into_inner())
}

#[test]
fn refs_are_those_of_the_signed_state_with_head_first() {
    let refs = [("refs/heads/main", NEW), ("refs/tags/v1", OLD)];
    let source = Fixed::new(&refs, &[]);
    let (heard, asked) = answers(&source, "capabilities\nlist\n\n", "");
    let listed = format!("@refs/heads/main HEAD\n{NEW} refs/heads/main\n{OLD} refs/tags/v1\n");
    assert_eq!(heard.unwrap(), format!("fetch\noption\n\n{listed}\n"));
    assert!(asked.is_empty());
}

#[test]
fn a_batch_goes_to_the_next_provider_until_one_gives_everything() {
    let providers = [
        "http://a.example/x",
        "http://b.example/x",
        "http://c.example/x",
    ];
    let source = Fixed::new(&[("refs/heads/main", NEW)], &providers);
    let batch = format!("option verbosity 0\nfetch {NEW} refs/heads/main\nfetch {OLD} x\n\n\n");
    let (heard, asked) = answers(&source, &batch, "b.example");
    assert_eq!(heard.unwrap(), "ok\n\n");
    let oids = vec![OLD.to_owned(), NEW.to_owned()];
    let expected = ["a.example", "b.example"].map(|host| (host.to_owned(), oids.clone(), true));
    assert_eq!(asked, expected);
}

#[test]
fn a_clone_that_nobody_can_serve_fails_with_the_reason() {
    let batch = format!("fetch {NEW} refs/heads/main\n\n");
    let source = Fixed::new(&[("refs/heads/main", NEW)], &["http://a.example/x"]);
    let (heard, _) = answers(&source, &batch, "nobody");
    assert!(
        heard
            .unwrap_err()
            .to_string()
            .contains("none of 1 providers")
    );
    let nobody = Fixed::new(&[("refs/heads/main", NEW)], &[]);
    let (heard, _) = answers(&nobody, &batch, "");
    assert!(
        heard
            .unwrap_err()
            .to_string()
            .contains("no provider is known")
    );
}

#[test]
fn pushes_and_made_up_ids_are_refused() {
    let source = Fixed::new(&[("refs/heads/main", NEW)], &[]);
    for commands in [
        "push refs/heads/main:refs/heads/main\n",
        "fetch --upload-pack=x y\n",
    ] {
        let (heard, asked) = answers(&source, commands, "");
        assert!(heard.is_err(), "{commands}");
        assert!(asked.is_empty());
    }
}
