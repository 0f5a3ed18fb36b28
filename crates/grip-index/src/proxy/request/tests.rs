use proptest::prelude::*;

use super::*;

fn module(path: &str) -> ModulePath {
    ModulePath::parse(path).unwrap()
}

#[test]
fn every_file_of_a_module_proxy_is_known() {
    let hello = module("git.example/npub1x/Hello");
    let version = Version::parse("v1.0.0-RC1").unwrap();
    let below =
        |file: &str| Request::parse(&format!("git.example/npub1x/%21hello/{file}")).unwrap();
    assert_eq!(below("@v/list"), Request::List(hello.clone()));
    assert_eq!(below("@latest"), Request::Latest(hello.clone()));
    assert_eq!(
        below("@v/v1.0.0-!r!c1.mod"),
        Request::GoMod(hello.clone(), version.clone())
    );
    assert_eq!(
        below("@v/v1.0.0-!r!c1.zip"),
        Request::Zip(hello.clone(), version.clone())
    );
    assert_eq!(
        below("@v/v1.0.0-%21r%21c1.info"),
        Request::Info(hello.clone(), Query::Version(version))
    );
    for (written, revision) in [
        ("main", "main"),
        ("!main", "Main"),
        ("v1.2", "v1.2"),
        ("a.b-c", "a.b-c"),
    ] {
        assert_eq!(
            below(&format!("@v/{written}.info")),
            Request::Info(hello.clone(), Query::Revision(revision.to_owned()))
        );
    }
}

#[test]
fn an_incompatible_version_is_read_with_its_plus_sign() {
    let version = Version::parse("v2.0.0+incompatible").unwrap();
    for written in ["+", "%2B"] {
        let request = Request::parse(&format!("a.example/b/@v/v2.0.0{written}incompatible.mod"));
        assert_eq!(
            request.unwrap(),
            Request::GoMod(module("a.example/b"), version.clone())
        );
    }
}

#[test]
fn a_refusal_shows_no_more_of_a_strangers_text_than_a_line() {
    let long = format!("a.example/{}\u{1b}[2J\n/@v/list", "x".repeat(5000));
    let said = Request::parse(&long).unwrap_err().to_string();
    assert!(
        said.len() < 1000 && !said.contains(['\n', '\u{1b}']),
        "{said:?}"
    );
}

proptest! {
    #[test]
    fn any_path_is_read_or_refused(path in "[a-z%!@./v0-9A-Z~+-]{0,60}|\\PC{0,40}") {
        if let Ok(request) = Request::parse(&path) {
            prop_assert!(!request.module().as_str().contains(".."));
        }
    }

    #[test]
    fn what_is_escaped_is_read_again(name in "[a-zA-Z0-9.~_-]{1,20}") {
        let escaped: String = name
            .chars()
            .flat_map(|c| c.is_ascii_uppercase().then_some('!').into_iter().chain([c.to_ascii_lowercase()]))
            .collect();
        prop_assert_eq!(unescape(&escaped), Some(name));
    }
}
