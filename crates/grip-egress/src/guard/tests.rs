use grip_testkit::assert_matches;

use super::*;

fn guard(allow_non_global: bool, own: &[&str]) -> Guard {
    Guard {
        rules: Rules::new(allow_non_global, Vec::new()),
        own: own.iter().map(|own| Service::parse(own).unwrap()).collect(),
        schemes: vec!["https".to_owned(), "http".to_owned()],
    }
}

fn check(guard: &Guard, url: &str) -> Result<String, Forbidden> {
    let url = Url::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"));
    guard.check(&url).map(|domain| domain.to_string())
}

/// Ways to write an address that is not public.
const NOT_PUBLIC: &str = "
    http://127.0.0.1/ http://127.0.0.1./ http://127.0.0.1:8080/ https://127.0.0.1:22/
    http://127.1/ http://127.0.1/ http://2130706433/ http://0x7f000001/ http://0x7f.1/
    http://0X7F.0.0.0x1/ http://0177.0.0.1/ http://017700000001/ http://%31%32%37.0.0.1/
    http://１２７.０.０.１/ http://127。0。0。1/ http://0/ http://0.0.0.0/ http://10.0.0.1/
    http://172.16.0.1/ http://192.168.1.1/ http://100.64.0.1/
    http://169.254.169.254/latest/meta-data/ http://2852039166/ http://0xa9fea9fe/
    http://168.63.129.16/ http://100.100.100.200/ http://224.0.0.1/ http://255.255.255.255/
    http://[::]/ http://[::1]/ http://[0:0:0:0:0:0:0:1]/ http://[::ffff:127.0.0.1]/
    http://[::ffff:7f00:1]/ http://[::127.0.0.1]/ http://[64:ff9b::7f00:1]/
    http://[64:ff9b:1::7f00:1]/ http://[2002:7f00:1::]/ http://[2001:0:7f00:1::]/
    http://[fd00:ec2::254]/ http://[fe80::1]/ http://[fec0::1]/ http://[ff02::1]/
    http://localhost/ http://LOCALHOST/ http://localhost./ http://ⓛocalhost/
    http://git.localhost/";

#[test]
fn addresses_that_are_not_public_are_refused_however_they_are_written() {
    let guard = guard(false, &[]);
    for url in NOT_PUBLIC.split_whitespace() {
        let refused = check(&guard, url);
        assert_matches!(refused, Err(Forbidden::Address { .. }), "{url}");
    }
}

#[test]
fn hosts_that_cannot_be_read_make_no_url() {
    for url in [
        "http://[fe80::1%25eth0]/",
        "http://[fe80::1%eth0]/",
        "http://[::1/",
        "http://::1/",
        "http://256.0.0.1/",
        "http://1.2.3.4.5/",
        "http://0x7f.0.0.0x100/",
        "http://4294967296/",
        "http:///",
        "http://a b/",
        "http://a\0b/",
        "http://127.0.0.1:65536/",
        "http://good.example:80:80/",
    ] {
        assert!(Url::parse(url).is_err(), "{url}");
    }
}

#[test]
fn other_schemes_are_refused() {
    let guard = guard(true, &[]);
    let urls = "
        file:///etc/passwd ftp://good.example/x git://good.example/x.git
        ssh://git@good.example/x.git data:text/plain,x javascript:alert(1) gopher://good.example/
        ws://good.example/ git+https://good.example/ blob:https://good.example/x";
    for url in urls.split_whitespace() {
        let refused = check(&guard, url);
        assert_matches!(refused, Err(Forbidden::Scheme(_)), "{url}");
    }
    assert!(check(&guard, "HTTPS://good.example/").is_ok());
}

#[test]
fn a_scheme_that_the_operator_left_out_is_refused() {
    let mut guard = guard(false, &[]);
    guard.schemes = vec!["https".to_owned(), "ftp".to_owned()];
    assert!(check(&guard, "https://good.example/").is_ok());
    for url in ["http://good.example/", "ftp://good.example/"] {
        assert_matches!(check(&guard, url), Err(Forbidden::Scheme(_)), "{url}");
    }
}

#[test]
fn urls_with_a_user_are_refused() {
    let guard = guard(false, &[]);
    let urls = "
        http://good.example@evil.example/ http://good.example:80@evil.example/
        http://user:secret@good.example/ http://:secret@good.example/
        http://good.example%2f@127.0.0.1/ http://a@b@127.0.0.1/";
    for url in urls.split_whitespace() {
        let refused = check(&guard, url).unwrap_err();
        assert_eq!(refused, Forbidden::UserInfo, "{url}");
        assert!(!format!("{refused} {refused:?}").contains("secret"));
    }
}

#[test]
fn the_host_that_is_judged_is_the_host_that_is_asked() {
    let guard = guard(false, &[]);
    for url in [
        "http://evil.example#@good.example/",
        "http://evil.example?@good.example/",
        r"http://evil.example\@good.example/",
        "http://evil.example/@good.example/",
        "http:evil.example/good.example",
        "http:\\\\evil.example\\good.example",
        "\thttp://ev\nil.example/",
        "http://EVIL.example./",
        "http://@evil.example/",
    ] {
        assert_eq!(check(&guard, url).as_deref(), Ok("evil.example"), "{url}");
    }
    let inside = check(&guard, r"http://127.0.0.1\@good.example/");
    assert_matches!(inside, Err(Forbidden::Address { .. }));
}

#[test]
fn our_own_service_is_never_asked() {
    for allow_non_global in [false, true] {
        let guard = guard(
            allow_non_global,
            &[
                "grasp.example.com",
                "alias.example:8443",
                "https://third.example/base",
            ],
        );
        let urls = "
            https://grasp.example.com/npub/x.git http://grasp.example.com/
            https://GRASP.example.com:443/ http://grasp.example.com:80/
            https://grasp.example.com./ https://alias.example:8443/ http://alias.example.:8443/
            https://third.example/elsewhere";
        for url in urls.split_whitespace() {
            let refused = check(&guard, url);
            assert_matches!(refused, Err(Forbidden::Own(_)), "{url}");
        }
        for url in [
            "https://grasp.example.com:8443/",
            "https://alias.example/",
            "https://mygrasp.example.com/",
            "https://grasp.example.com.evil.net/",
        ] {
            assert!(check(&guard, url).is_ok(), "{url}");
        }
    }
}

#[test]
fn our_own_service_is_known_by_every_name_of_this_machine() {
    let guard = guard(true, &["localhost:7334"]);
    let hosts = "
        localhost localhost. x.localhost 127.0.0.1 127.8.8.8 2130706433 [::1] [::ffff:127.0.0.1]";
    for host in hosts.split_whitespace() {
        let refused = check(&guard, &format!("http://{host}:7334/"));
        assert_matches!(refused, Err(Forbidden::Own(_)), "{host}");
        let other = check(&guard, &format!("http://{host}:7335/"));
        assert!(other.is_ok(), "{host}: {other:?}");
    }
}

#[test]
fn urls_that_no_server_can_have_are_refused() {
    let guard = guard(true, &[]);
    assert_eq!(
        check(&guard, "http://good.example:0/"),
        Err(Forbidden::Port)
    );
    let long = format!("http://good.example/{}", "x".repeat(MAX_URL_BYTES));
    assert_eq!(check(&guard, &long), Err(Forbidden::TooLong));
    let host = format!("http://{}example/", "a.".repeat(130));
    assert_eq!(check(&guard, &host), Err(Forbidden::NoHost));
}

#[test]
fn refusals_are_sentences() {
    let guard = guard(false, &["grasp.example.com"]);
    for (url, text) in [
        (
            "ftp://a.example/",
            "URLs with the scheme `ftp` are not fetched",
        ),
        (
            "http://u@a.example/",
            "the URL carries a user name or a password",
        ),
        (
            "http://grasp.example.com/",
            "grasp.example.com is this service itself",
        ),
        (
            "http://127.1/",
            "127.0.0.1 is not a public host: it is a loopback address",
        ),
    ] {
        assert_eq!(check(&guard, url).unwrap_err().to_string(), text);
    }
}
