//! Values of every kind: what is taken, and what an error says.

use super::*;

fn parse<K: Kind>(text: &str) -> Result<K::Value, String> {
    K::parse(text).map_err(|error| error.to_string())
}

#[test]
fn limits_of_single_hosts_name_each_host_once() {
    let found = parse::<Vec<HostLimit>>("GitHub.com=10/60, codeberg.org = 2 / 10").unwrap();
    let shown: Vec<_> = found
        .iter()
        .map(|l| format!("{} {} {}", l.host, l.concurrent, l.per_minute))
        .collect();
    assert_eq!(shown, ["github.com 10 60", "codeberg.org 2 10"]);
    for text in [
        "github.com",
        "github.com=10",
        "github.com=0/60",
        "github.com:443=1/2",
        "=1/2",
        "a=1/-2",
    ] {
        assert!(
            parse::<Vec<HostLimit>>(text).unwrap_err().contains(text),
            "{text}"
        );
    }
    let twice = parse::<Vec<HostLimit>>("a.example=1/2,A.example.=3/4").unwrap_err();
    assert_eq!(twice, "names a.example twice");
}

#[test]
fn only_what_can_be_fetched_is_a_scheme() {
    assert_eq!(parse::<Schemes>("HTTPS").unwrap(), ["https"]);
    assert!(parse::<Schemes>("https,ssh").unwrap_err().contains("`ssh`"));
    assert!(parse::<Schemes>(",").is_err());
}

#[test]
fn redis_is_named_by_a_url() {
    for text in [
        "redis://127.0.0.1/",
        "rediss://:secret@cache.example:6380/2",
    ] {
        assert!(parse::<RedisUrl>(text).is_ok(), "{text}");
    }
    for text in ["127.0.0.1:6379", "http://127.0.0.1/", "redis:"] {
        assert!(parse::<RedisUrl>(text).is_err(), "{text}");
    }
}

#[test]
fn a_database_is_a_server_or_a_file() {
    for (text, file) in [
        ("sqlite:state.db", "state.db"),
        ("sqlite:///var/lib/x.db", "/var/lib/x.db"),
        ("sqlite:/var/lib/x.db", "/var/lib/x.db"),
    ] {
        assert_eq!(
            parse::<DatabasePlace>(text),
            Ok(DatabasePlace::File(file.into())),
            "{text}"
        );
    }
    for text in ["postgres://db.example/x", "postgresql://u:p@127.0.0.1:1/x"] {
        assert!(
            matches!(parse::<DatabasePlace>(text), Ok(DatabasePlace::Server(_))),
            "{text}"
        );
    }
    for text in [
        "mysql://x/y",
        "postgres:x",
        "sqlite:",
        "sqlite::memory:",
        "x",
    ] {
        assert!(parse::<DatabasePlace>(text).is_err(), "{text}");
    }
}

#[test]
fn module_paths_have_an_owner_each() {
    const NPUB: &str = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";
    let found = parse::<Vec<Claim>>(&format!("go.example.com/tools/ = {NPUB}")).unwrap();
    assert_eq!(found[0].to_string(), format!("go.example.com/tools={NPUB}"));
    for (text, hint) in [
        ("go.example.com".to_owned(), "prefix=npub"),
        (format!("tools={NPUB}"), "no module path"),
        (format!("a.example/../b={NPUB}"), "no module path"),
        ("a.example=npub1x".to_owned(), "no npub"),
    ] {
        let error = parse::<Vec<Claim>>(&text).unwrap_err();
        assert!(error.contains(&format!("`{text}`")), "{error}");
        assert!(error.contains(hint), "{error}");
    }
    let twice = format!("a.example={NPUB},a.example/={NPUB}");
    assert_eq!(
        parse::<Vec<Claim>>(&twice).unwrap_err(),
        "names a.example twice"
    );
}

#[test]
fn a_name_of_an_instance_is_one_word() {
    assert!(node_name("harbour-1.eu_west").is_ok());
    for text in ["two words", "a@b", "a/b", &"x".repeat(64)] {
        assert!(node_name(text).is_err(), "{text}");
    }
}

#[test]
fn sizes_have_units_or_none() {
    for (text, expected) in [
        ("2147483648", 2_147_483_648),
        ("2 GiB", 2 << 30),
        ("2G", 2 << 30),
        ("500 MB", 500_000_000),
        ("64kib", 64 << 10),
    ] {
        assert_eq!(parse::<Bytes>(text), Ok(expected), "{text}");
    }
    for text in ["", "0", "-1", "2 gigs", "1.5 GiB", "99999999999 TiB"] {
        assert!(parse::<Bytes>(text).is_err(), "{text}");
    }
}

#[test]
fn a_duration_without_unit_is_told_which_to_add() {
    assert_eq!(parse::<Duration>("5s"), Ok(Duration::from_secs(5)));
    assert_eq!(parse::<Duration>("1m 30s"), Ok(Duration::from_secs(90)));
    assert_eq!(
        parse::<Duration>("5").unwrap_err(),
        "has no unit; write `5s` or `5ms`"
    );
    assert!(parse::<Duration>("soon").is_err());
    assert!(parse::<Duration>("0s").is_err());
}

#[test]
fn truth_is_written_in_many_ways() {
    for text in ["true", "1", "YES", "on"] {
        assert_eq!(parse::<bool>(text), Ok(true));
    }
    for text in ["false", "0", "No", "off"] {
        assert_eq!(parse::<bool>(text), Ok(false));
    }
    assert!(parse::<bool>("maybe").is_err());
}

#[test]
fn a_log_level_is_a_level_or_names_its_part() {
    for text in [
        "info",
        "WARN",
        "info,grip_git=debug",
        "grip_web[request]=trace",
    ] {
        assert!(parse::<LogFilter>(text).is_ok(), "{text}");
    }
    for text in ["loud", "info,grip_git", "grip_git=loud"] {
        assert!(parse::<LogFilter>(text).is_err(), "{text}");
    }
}

#[test]
fn a_single_address_is_a_network() {
    let found = parse::<Vec<IpNet>>("10.0.0.0/8, 127.0.0.1,").unwrap();
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.0.0.0/8", "127.0.0.1/32"]
    );
    assert!(
        parse::<Vec<IpNet>>("10.0.0.0/99")
            .unwrap_err()
            .contains("10.0.0.0/99")
    );
}

#[test]
fn owners_and_hosts_are_told_apart() {
    let text = "github.com/orgs/acme, GitHub.com/users/bob/,ghe.corp.example,\
                http://127.0.0.1:4000/orgs/x";
    let found = parse::<Vec<IndexedOwner>>(text).unwrap();
    let shown: Vec<_> = found
        .iter()
        .map(|p| format!("{} {:?}", p.host.http_url(), p.owner))
        .collect();
    assert_eq!(
        shown,
        [
            "https://github.com Org(Login(\"acme\"))",
            "https://github.com User(Login(\"bob\"))",
            "https://ghe.corp.example Everything",
            "http://127.0.0.1:4000 Org(Login(\"x\"))",
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
        let error = parse::<Vec<IndexedOwner>>(&format!("github.com/users/z,{text}")).unwrap_err();
        assert!(error.contains(&format!("`{text}`")), "{error}");
        assert!(error.contains(hint), "{text}: {error}");
    }
    assert!(
        parse::<Vec<IndexedOwner>>("a.example,a.example")
            .unwrap_err()
            .contains("twice")
    );
}

#[test]
fn tokens_say_which_host_they_are_for_and_never_show_themselves() {
    let found = parse::<Vec<HostToken>>("ghp_abc, ghe.corp.example = ghp_def").unwrap();
    assert_eq!(found[0].host, None);
    assert_eq!(found[1].token.reveal(), "ghp_def");
    assert!(!format!("{found:?}").contains("ghp_"), "{found:?}");
    for text in ["ghe.example=", "a b=ghp_abc", "ghp abc"] {
        let error = parse::<Vec<HostToken>>(text).unwrap_err();
        assert!(!error.contains("abc"), "{error}");
    }
}

#[test]
fn lists_of_one_host_are_read_in_their_order() {
    let text = "github.com/events, GitHub.com/orgs/acme/,github.com/repos/acme/tides,\
                github.com/users/bob";
    let found = parse::<WatchedLists>(text).unwrap().unwrap();
    let shown: Vec<_> = found.sources.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        ["events", "orgs/acme", "repos/acme/tides", "users/bob"]
    );
    assert_eq!(found.host.http_url(), "https://github.com");
    let alone = parse::<WatchedLists>("http://127.0.0.1:4000")
        .unwrap()
        .unwrap();
    assert_eq!(alone.sources, []);
    assert_eq!(parse::<WatchedLists>(" , "), Ok(None));
}

#[test]
fn a_wrong_list_of_events_names_itself_and_what_would_be_right() {
    for (text, hint) in [
        ("github.com/acme", "github.com/orgs/NAME"),
        ("github.com/repos/acme", "github.com/repos/OWNER/NAME"),
        ("github.com/orgs/..", "github.com/orgs/NAME"),
        ("/orgs/acme", "does not begin with a host"),
    ] {
        let error = parse::<WatchedLists>(text).unwrap_err();
        assert!(error.contains(&format!("`{text}`")), "{error}");
        assert!(error.contains(hint), "{text}: {error}");
    }
    let two = parse::<WatchedLists>("github.com/orgs/a,ghe.example/orgs/a").unwrap_err();
    assert!(two.contains("one host"), "{two}");
    let twice = parse::<WatchedLists>("github.com/orgs/a,github.com/orgs/a").unwrap_err();
    assert!(twice.contains("twice"), "{twice}");
}

#[test]
fn a_secret_may_have_a_comma_where_it_has_a_line_of_its_own() {
    let revealed = |text| {
        let found = parse::<Secrets>(text).unwrap();
        found
            .iter()
            .map(|s| s.reveal().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(revealed("a, b=="), ["a", "b=="]);
    assert_eq!(revealed("a,b\n\nc \n"), ["a,b", "c"]);
    assert!(parse::<Secrets>(" ,").is_err() && parse::<Secrets>("\n").is_err());
}
