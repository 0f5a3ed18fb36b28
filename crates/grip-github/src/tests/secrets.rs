//! No token is printed: not in logs, errors or debug output; and the log says what it must.

use std::{error::Error, io, sync::Arc, time::Duration};

use grip_testkit::{
    github::{Behaviour, Limits},
    until,
};
use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use super::support::{With, repo};
use crate::Options;

/// All that is logged by this thread while it lives.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock()).into_owned()
    }

    fn count(&self, level: &str, words: &str) -> usize {
        let text = self.text();
        let lines = text.lines();
        lines
            .filter(|line| line.contains(level) && line.contains(words))
            .count()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// An error with all that is below it.
fn in_full(error: &(dyn Error + 'static)) -> String {
    let mut text = format!("{error:?} {error:#?}");
    let mut next = Some(error);
    while let Some(error) = next {
        text.push_str(&format!("\n{error}"));
        next = error.source();
    }
    text
}

#[tokio::test]
async fn no_token_is_printed_whatever_goes_wrong() {
    let (log, _guard) = Log::start();
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
        printed.push_str(&in_full(&error));
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
    let (log, _guard) = Log::start();
    let with = With {
        options: Options {
            set_aside: Duration::from_millis(20),
            ..Options::default()
        },
        ..With::default()
    };
    let pair = with.start().await;
    pair.host.add("acme/one");
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
    let (log, _guard) = Log::start();
    let with = With {
        options: Options {
            margin: Duration::ZERO,
            reserve: 0,
            ..Options::default()
        },
        limits: Limits {
            per_token: 20,
            window: Duration::from_secs(1),
            ..Limits::default()
        },
        ..With::default()
    };
    let pair = with.start().await;
    pair.host.add("acme/one");
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
