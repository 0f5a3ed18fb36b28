//! No token is printed: not in logs, errors or debug output; and the log says what it must.

use std::time::Duration;

use grip_testkit::{CapturedLog, github::Behaviour, until};
use grip_types::ErrorChain;

use super::support::{Backend, With, repo};
use crate::Options;

#[tokio::test]
async fn no_token_is_printed_whatever_goes_wrong() {
    let (log, _guard) = CapturedLog::start();
    let pair = With {
        idle: Duration::from_millis(50),
        ..With::tokens(&["s3cret-a", "s3cret-b"])
    }
    .start()
    .await;
    let one = repo("acme/one");
    let mut printed = format!("{:?}", pair.github.budget());
    for behaviour in [
        Behaviour::Html,
        Behaviour::BreakOff,
        Behaviour::moved("http://evil.example/"),
        Behaviour::status(404, "s3"),
        Behaviour::status(403, "no"),
        Behaviour::status(500, "no"),
        Behaviour::status(401, "Bad credentials"),
    ] {
        pair.host.behave("/", behaviour);
        let error = pair.github.repository(&one).await.unwrap_err();
        printed.push_str(&format!("{error:?} {error:#?} {}", ErrorChain(&error)));
    }
    printed.push_str(&log.text());
    assert!(printed.contains("setting it aside") && printed.contains("127.0.0.1"));
    for secret in ["s3cret", "Bearer s"] {
        assert!(!printed.contains(secret));
    }
    let shown = pair.host.requests().iter().any(|seen| seen.token.is_some());
    assert!(shown, "they were used");
}

#[tokio::test]
async fn a_token_that_is_not_accepted_is_logged_once() {
    let (log, _guard) = CapturedLog::start();
    let with = With {
        options: Options {
            set_aside: Duration::from_millis(20),
            ..Options::default()
        },
        ..With::default()
    };
    let pair = with.start_with_repository().await;
    pair.host.expire_after(0, 0);
    let refused = async || {
        let _ = pair.ask().await;
        (pair.host.counts().unauthorised == 3).then_some(())
    };
    until("some tries", refused).await.unwrap();
    assert_eq!(log.count("WARN", "rejected a token"), 1);
    pair.host.renew_token(0);
    until("the token works", async || pair.ask().await.ok())
        .await
        .unwrap();
    assert_eq!(log.count("INFO", "accepts a token again"), 1);
}

#[tokio::test]
async fn the_log_tells_of_checks_of_little_left_of_nothing_left_and_of_going_on() {
    let (log, _guard) = CapturedLog::start();
    let with = With::short_windows(Backend::Memory, 20);
    let pair = with.start_with_repository().await;
    for _ in 0..20 {
        pair.ask().await.unwrap();
    }
    for _ in 0..3 {
        assert!(pair.ask().await.is_err());
    }
    assert!(log.count("DEBUG", "GitHub budget") >= 23);
    assert_eq!(log.count("WARN", "budget is low"), 1);
    assert_eq!(log.count("WARN", "is spent"), 1);
    assert_eq!(log.count("INFO", "resuming"), 0);
    until("the next window", async || pair.ask().await.ok())
        .await
        .unwrap();
    assert_eq!(
        log.count("INFO", "resuming GitHub calls with a new budget"),
        1
    );
}
