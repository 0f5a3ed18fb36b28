//! The password of Redis is told to Redis only.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use grip_limits::{BackendStatus, RedisOptions};
use grip_testkit::{RedisServer, until};
use tracing_subscriber::fmt::MakeWriter;

use crate::support::{connected, in_fallback, instance, limits, options, redis_options};

const PASSWORD: &str = "open-sesame";

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }

    /// Lines at `level` that speak of Redis.
    fn count(&self, level: &str) -> usize {
        let text = self.text();
        let lines = text.lines().filter(|line| line.contains(level));
        lines.filter(|line| line.contains("redis is")).count()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
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

#[tokio::test]
async fn an_outage_is_logged_once_and_without_the_password() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let mut server = RedisServer::start_with_password(PASSWORD).await.unwrap();
    let redis = redis_options(server.url());
    assert!(!format!("{redis:?}").contains(PASSWORD));
    let throttle = instance(redis, options(limits(8, 40))).await;
    server.kill();
    in_fallback(&throttle).await;
    until("it was tried again", || async {
        let BackendStatus::Fallback { reason, .. } = throttle.backend() else {
            return None;
        };
        assert!(!reason.contains(PASSWORD));
        (reason == "connection refused").then_some(())
    })
    .await
    .unwrap();
    server.launch().await.unwrap();
    connected(&throttle).await;
    until("the return was logged", || async {
        (log.count("INFO") == 1).then_some(())
    })
    .await
    .unwrap();
    assert_eq!(log.count("WARN"), 1, "{}", log.text());
    assert!(!log.text().contains(PASSWORD), "{}", log.text());
}

#[tokio::test]
async fn a_wrong_password_is_named_as_the_reason_but_not_told() {
    let server = RedisServer::start_with_password(PASSWORD).await.unwrap();
    let wrong = "open-barley";
    let url = server.url().replace(PASSWORD, wrong);
    let redis = RedisOptions {
        timeout: Duration::from_secs(5),
        ..redis_options(url)
    };
    let throttle = instance(redis, options(limits(8, 40))).await;
    let BackendStatus::Fallback { reason, .. } = throttle.backend() else {
        panic!("{:?}", throttle.backend());
    };
    assert_eq!(reason, "authentication failed");
    assert!(!reason.contains(wrong));
}

#[tokio::test]
async fn a_server_without_tls_is_disconnected_for_rediss() {
    let server = RedisServer::start_with_password(PASSWORD).await.unwrap();
    let url = server.url().replace("redis://", "rediss://");
    let throttle = instance(redis_options(url), options(limits(8, 40))).await;
    let BackendStatus::Fallback { reason, .. } = throttle.backend() else {
        panic!("{:?}", throttle.backend());
    };
    assert!(!reason.contains(PASSWORD));
}
