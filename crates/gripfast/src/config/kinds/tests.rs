//! Values of every kind: what is taken, and what an error says.

use super::*;

const NPUB: &str = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";

fn parse<K: Kind>(text: &str) -> Result<K::Value, String> {
    K::parse(text).map_err(|error| error.to_string())
}

/// Takes every word of the first text and refuses every one of the second.
fn takes<K: Kind>(right: &str, wrong: &str) {
    for text in right.split_whitespace() {
        assert!(parse::<K>(text).is_ok(), "{text}");
    }
    for text in wrong.split_whitespace() {
        assert!(parse::<K>(text).is_err(), "{text}");
    }
}

/// Each text is refused by an error that says what stands beside it.
fn refuses<K: Kind>(cases: &[(&str, &str)]) {
    for (text, hint) in cases {
        let Err(error) = parse::<K>(text) else {
            panic!("{text} was taken");
        };
        assert!(error.contains(hint), "{text}: {error}");
    }
}

/// The same; the error also names the entry.
fn refuses_entry<K: Kind>(cases: &[(&str, &str)]) {
    refuses::<K>(cases);
    for (text, _) in cases {
        refuses::<K>(&[(text, &format!("`{text}`"))]);
    }
}

#[test]
fn simple_kinds_take_what_they_describe_and_nothing_else() {
    takes::<RedisUrl>(
        "redis://127.0.0.1/ rediss://:secret@cache.example:6380/2",
        "127.0.0.1:6379 http://127.0.0.1/ redis:",
    );
    let too_long = format!("a@b a/b {}", "x".repeat(64));
    takes::<NodeName>("harbour-1.eu_west", &too_long);
    refuses::<NodeName>(&[("two words", "is no name")]);
    takes::<LogFilter>(
        "info WARN info,grip_git=debug grip_web[request]=trace",
        "loud info,grip_git grip_git=loud",
    );
    takes::<Schemes>("HTTPS", ",");
    refuses::<Schemes>(&[("https,ssh", "`ssh`")]);
    for (yes, no) in [("true", "false"), ("1", "0"), ("YES", "No"), ("on", "off")] {
        assert_eq!(
            (parse::<bool>(yes), parse::<bool>(no)),
            (Ok(true), Ok(false))
        );
    }
    refuses::<bool>(&[("maybe", "neither true nor false")]);
}

#[test]
fn no_text_is_an_empty_list_or_no_value() {
    assert_eq!(parse::<Option<RedisUrl>>(""), Ok(None));
    assert_eq!(parse::<Secrets>(""), Ok(vec![]));
    assert_eq!(parse::<Vec<IpNet>>(""), Ok(vec![]));
    refuses::<Bytes>(&[("", "is no size")]);
}

#[test]
fn limits_of_single_hosts_name_each_host_once() {
    let found = parse::<Vec<HostLimit>>("GitHub.com=10/60, codeberg.org = 2 / 10").unwrap();
    let shown = |l: &HostLimit| format!("{} {} {}", l.host, l.concurrent, l.per_minute);
    let shown: Vec<_> = found.iter().map(shown).collect();
    assert_eq!(shown, ["github.com 10 60", "codeberg.org 2 10"]);
    let wrong = "github.com github.com=10 github.com=0/60 github.com:443=1/2 =1/2 a=1/-2";
    for text in wrong.split(' ') {
        refuses_entry::<Vec<HostLimit>>(&[(text, "such as github.com=10/60")]);
    }
    refuses::<Vec<HostLimit>>(&[("a.example=1/2,A.example.=3/4", "names a.example twice")]);
}

#[test]
fn a_database_is_a_server_or_a_file() {
    for (text, file) in [
        ("sqlite:state.db", "state.db"),
        ("sqlite:///var/lib/x.db", "/var/lib/x.db"),
        ("sqlite:/var/lib/x.db", "/var/lib/x.db"),
    ] {
        let place = DatabasePlace::File(file.into());
        assert_eq!(parse::<DatabasePlace>(text), Ok(place), "{text}");
    }
    for text in ["postgres://db.example/x", "postgresql://u:p@127.0.0.1:1/x"] {
        let place = DatabasePlace::Server(SecretText::new(text));
        assert_eq!(parse::<DatabasePlace>(text), Ok(place), "{text}");
    }
    takes::<DatabasePlace>("", "mysql://x/y postgres:x sqlite: sqlite::memory: x");
}

#[test]
fn module_paths_have_an_owner_each() {
    let found = parse::<Vec<Claim>>(&format!("go.example.com/tools/ = {NPUB}")).unwrap();
    assert_eq!(found[0].to_string(), format!("go.example.com/tools={NPUB}"));
    refuses_entry::<Vec<Claim>>(&[
        ("go.example.com", "prefix=npub"),
        (&format!("tools={NPUB}"), "no module path"),
        (&format!("a.example/../b={NPUB}"), "no module path"),
        ("a.example=npub1x", "no npub"),
    ]);
    let twice = format!("a.example={NPUB},a.example/={NPUB}");
    refuses::<Vec<Claim>>(&[(&twice, "names a.example twice")]);
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
    for text in ["0", "-1", "2 gigs", "1.5 GiB", "99999999999 TiB"] {
        refuses::<Bytes>(&[(text, "is no size")]);
    }
}

#[test]
fn a_duration_without_unit_is_told_which_to_add() {
    assert_eq!(parse::<Duration>("5s"), Ok(Duration::from_secs(5)));
    assert_eq!(parse::<Duration>("1m 30s"), Ok(Duration::from_secs(90)));
    refuses::<Duration>(&[
        ("5", "has no unit; write `5s` or `5ms`"),
        ("soon", "is no duration"),
        ("0s", "is no time at all"),
    ]);
}

#[test]
fn a_single_address_is_a_network() {
    let found = parse::<Vec<IpNet>>("10.0.0.0/8, 127.0.0.1,").unwrap();
    let shown: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["10.0.0.0/8", "127.0.0.1/32"]);
    refuses_entry::<Vec<IpNet>>(&[("10.0.0.0/99", "no network")]);
}

#[test]
fn owners_and_hosts_are_told_apart() {
    let text = "github.com/orgs/acme, GitHub.com/users/bob/,ghe.corp.example,\
                http://127.0.0.1:4000/orgs/x";
    let found = parse::<Vec<IndexedOwner>>(text).unwrap();
    let shown = |p: &IndexedOwner| format!("{} {:?}", p.host.http_url(), p.owner);
    assert_eq!(
        found.iter().map(shown).collect::<Vec<_>>(),
        [
            "https://github.com Org(Login(\"acme\"))",
            "https://github.com User(Login(\"bob\"))",
            "https://ghe.corp.example Everything",
            "http://127.0.0.1:4000 Org(Login(\"x\"))",
        ]
    );
    refuses_entry::<Vec<IndexedOwner>>(&[
        ("github.com", "github.com/orgs/acme"),
        ("github.com/acme", "github.com/users/acme"),
        ("github.com/acme/repo", "none of host"),
        ("github.com/orgs/a/b", "`a/b` is no name"),
        ("github.com/orgs/..", "`..` is no name"),
        ("github.com/orgs/", "which leaves open"),
        ("/orgs/acme", "does not begin with a host"),
    ]);
    refuses::<Vec<IndexedOwner>>(&[
        ("github.com/users/z,github.com", "has `github.com`"),
        ("a.example,a.example", "twice"),
    ]);
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
    let expected = ["events", "orgs/acme", "repos/acme/tides", "users/bob"];
    assert_eq!(shown, expected);
    assert_eq!(found.host.http_url(), "https://github.com");
    let alone = parse::<WatchedLists>("http://127.0.0.1:4000").unwrap();
    assert_eq!(alone.unwrap().sources, []);
    assert_eq!(parse::<WatchedLists>(" , "), Ok(None));
    refuses_entry::<WatchedLists>(&[
        ("github.com/acme", "github.com/orgs/NAME"),
        ("github.com/repos/acme", "github.com/repos/OWNER/NAME"),
        ("github.com/orgs/..", "github.com/orgs/NAME"),
        ("/orgs/acme", "does not begin with a host"),
    ]);
    refuses::<WatchedLists>(&[
        ("github.com/orgs/a,ghe.example/orgs/a", "one host"),
        ("github.com/orgs/a,github.com/orgs/a", "twice"),
    ]);
}

#[test]
fn a_secret_may_have_a_comma_where_it_has_a_line_of_its_own() {
    let revealed = |text| {
        let found = parse::<Secrets>(text).unwrap();
        let texts = found.iter().map(|secret| secret.reveal().to_owned());
        texts.collect::<Vec<_>>()
    };
    assert_eq!(revealed("a, b=="), ["a", "b=="]);
    assert_eq!(revealed("a,b\n\nc \n"), ["a,b", "c"]);
    refuses::<Secrets>(&[(" ,", "holds no secret"), ("\n", "holds no secret")]);
}

#[test]
fn byte_counts_take_units_and_0_where_it_lifts_a_limit() {
    for (text, bytes) in [
        ("0", 0),
        ("1024", 1024),
        ("64 KiB", 1 << 16),
        ("2 MB", 2_000_000),
    ] {
        assert_eq!(parse::<ByteCount<u32, 0>>(text), Ok(bytes), "{text}");
    }
    assert_eq!(parse::<ByteCount<u32, 1>>("32 MiB"), Ok(1 << 25));
    refuses::<ByteCount<u32, 0>>(&[
        ("4 GiB", "too large"),
        ("-1", "is no size"),
        ("many", "is no size"),
    ]);
    refuses::<ByteCount<u32, 1>>(&[("0", "is no size"), ("4294967296", "too large")]);
}
