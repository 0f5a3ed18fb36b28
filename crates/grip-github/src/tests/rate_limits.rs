//! Every row of the table that tells a rate limit from denied access, and what follows.

use grip_testkit::assert_matches;
use grip_testkit::github::Behaviour;

use super::support::{Pair, pair, repo, seconds_until};
use crate::{GitHubError, NextStep, RepoKey, Response};

const PATH: &str = "/repos/acme/one";

fn bare(code: u16, headers: &[(&str, &str)], body: &str) -> Behaviour {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Behaviour::Bare {
        code,
        headers: headers.iter().map(own).collect(),
        body: body.to_owned(),
    }
}

/// The error of a call that is answered so, and the pair for further calls.
async fn heard(behaviour: Behaviour) -> (Pair, GitHubError) {
    let pair = pair().await;
    pair.host.behave(PATH, behaviour);
    let error = pair.ask().await.unwrap_err();
    (pair, error)
}

fn is_retry(error: &GitHubError) -> bool {
    error.next_step() == NextStep::Retry
}

fn is_end(error: &GitHubError) -> bool {
    error.next_step() == NextStep::GiveUp
}

/// The wait of a rate limit that counts as a try, in seconds.
fn counted_wait(error: &GitHubError) -> Option<u64> {
    match error.next_step() {
        NextStep::Wait {
            until,
            counts: true,
        } => Some(seconds_until(until)),
        _ => None,
    }
}

#[tokio::test]
async fn a_429_is_always_a_rate_limit() {
    for (headers, wait) in [(&[][..], 60), (&[("retry-after", "7")][..], 7)] {
        let (_, error) = heard(bare(429, headers, "")).await;
        assert_matches!(error, GitHubError::RateLimited { .. });
        assert_eq!(counted_wait(&error), Some(wait));
    }
}

#[tokio::test]
async fn a_403_with_nothing_remaining_is_a_rate_limit_until_the_reset() {
    let pair = pair().await;
    pair.host.set_limits(|limits| limits.per_token = 20);
    pair.host.use_up(Some(0), 20);
    let error = pair.ask().await.unwrap_err();
    assert_matches!(
        error,
        GitHubError::RateLimited {
            secondary: false,
            ..
        }
    );
    let wait = counted_wait(&error).unwrap();
    assert!((3_600..=3_606).contains(&wait), "{wait}");
}

#[tokio::test]
async fn a_403_with_retry_after_is_a_secondary_limit_for_all() {
    for code in [403, 429] {
        let (pair, error) = heard(Behaviour::retry_after(code, 30)).await;
        assert_matches!(
            error,
            GitHubError::RateLimited {
                secondary: true,
                ..
            }
        );
        assert_eq!(counted_wait(&error), Some(30));
        let calls = pair.host.count();
        let error = pair.github.repository(&repo("acme/two")).await.unwrap_err();
        let GitHubError::Throttled { until, .. } = error else {
            panic!("{error:?}");
        };
        assert!((29..=30).contains(&seconds_until(until)));
        assert_eq!(pair.host.count(), calls, "no call was made");
        let counts = matches!(error.next_step(), NextStep::Wait { counts, .. } if !counts);
        assert!(counts, "no call, no try");
    }
}

#[tokio::test]
async fn a_403_that_talks_of_a_rate_limit_is_one() {
    let secondary = "You have exceeded a secondary rate limit.";
    for (message, is_secondary) in [("API rate limit exceeded", false), (secondary, true)] {
        let (_, error) = heard(Behaviour::status(403, message)).await;
        let GitHubError::RateLimited { secondary, .. } = error else {
            panic!("{message}: {error:?}");
        };
        assert_eq!(secondary, is_secondary, "{message}");
        assert_eq!(counted_wait(&error), Some(60));
    }
}

#[tokio::test]
async fn any_other_403_is_a_closed_door() {
    let (pair, error) = heard(Behaviour::status(403, "Resource not accessible")).await;
    assert!(matches!(error, GitHubError::AccessDenied { .. }) && is_end(&error));
    assert_eq!(
        error.to_string(),
        "the host denies access: \"Resource not accessible\""
    );
    pair.host.behave(PATH, Behaviour::Serve);
    pair.ask().await.unwrap();
}

#[tokio::test]
async fn a_5xx_is_the_hosts_failure_and_tried_again() {
    for code in [500, 502, 503, 504] {
        let (_, error) = heard(bare(code, &[], "<html>")).await;
        let is_server = matches!(error, GitHubError::Server { status } if status == code);
        assert!(is_server && is_retry(&error), "{error:?}");
    }
}

#[tokio::test]
async fn a_304_says_that_nothing_changed_and_costs_nothing() {
    let pair = pair().await;
    let one = RepoKey::Name(repo("acme/one"));
    let fresh = pair.github.repository_raw(&one, None).await.unwrap();
    let etag = fresh.fresh().unwrap().etag;
    let left = pair.host.remaining(Some(0));
    let again = pair.github.repository_raw(&one, etag.as_ref()).await;
    assert_eq!(again.unwrap(), Response::NotModified);
    assert_eq!(pair.host.remaining(Some(0)), left);
    assert_eq!(pair.github.budget()[0].remaining, Some(left));
}

#[tokio::test]
async fn what_is_not_there_is_not_asked_for_again() {
    let (_, error) = heard(Behaviour::status(404, "Not Found")).await;
    assert!(matches!(error, GitHubError::NotFound { .. }) && is_end(&error));
    let (_, error) = heard(Behaviour::status(410, "Gone")).await;
    assert!(matches!(error, GitHubError::Gone) && is_end(&error));
    for code in [400, 409, 422, 451] {
        let (_, error) = heard(Behaviour::status(code, "no")).await;
        let is_client = matches!(error, GitHubError::Client { status, .. } if status == code);
        assert!(is_client && is_end(&error), "{error:?}");
    }
    let (_, error) = heard(Behaviour::status(408, "slow")).await;
    assert!(is_retry(&error));
}

#[tokio::test]
async fn a_host_that_breaks_off_is_tried_again() {
    let (_, error) = heard(Behaviour::BreakOff).await;
    assert_matches!(error, GitHubError::Unreachable(_));
    assert!(is_retry(&error));
}
