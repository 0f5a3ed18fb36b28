//! The password of Redis is told to Redis only.

use std::time::Duration;

use grip_limits::{BackendStatus, RedisOptions};
use grip_testkit::{CapturedLog, RedisServer, until, until_true};

use crate::support::{connected, in_fallback, instance, limits, options, redis_options};

const PASSWORD: &str = "open-sesame";

#[tokio::test]
async fn an_outage_is_logged_once_and_without_the_password() {
    let (log, _guard) = CapturedLog::start();
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
    until_true("the return was logged", || {
        log.count("INFO", "redis is") == 1
    })
    .await
    .unwrap();
    assert_eq!(log.count("WARN", "redis is"), 1, "{}", log.text());
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
