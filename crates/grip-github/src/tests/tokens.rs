//! Tokens that the host does not accept.

use std::time::Duration;

use grip_testkit::{assert_matches, until};

use super::support::{Backend, With, on_both_backends, seconds_until};
use crate::{GitHubError, NextStep, Options};

fn statuses(host: &grip_testkit::FakeGitHub) -> Vec<(Option<usize>, u16)> {
    let seen = host.requests();
    seen.iter().map(|seen| (seen.token, seen.status)).collect()
}

on_both_backends! {
    async fn a_token_that_expires_is_set_aside_and_the_others_go_on(on: Backend) {
        let pair = With::tokens_on(on, &["s3cret-a", "s3cret-b"]).start_with_repository().await;
        pair.host.expire_after(0, 1);
        for _ in 0..12 {
            pair.ask().await.unwrap();
        }
        let seen = statuses(&pair.host);
        let refused = seen.iter().filter(|(_, status)| *status == 401).count();
        assert_eq!(refused, 1, "{seen:?}");
        let after = seen.iter().skip_while(|(_, status)| *status != 401).skip(1);
        assert!({ after }.all(|(token, _)| *token == Some(1)), "{seen:?}");
        let aside = pair.github.budget()[0].set_aside_until.unwrap();
        assert!((3_590..=3_600).contains(&seconds_until(aside)));
        assert_eq!(pair.github.budget()[1].set_aside_until, None);
    }

    async fn without_an_accepted_token_no_calls_are_made(on: Backend) {
        let pair = With::tokens_on(on, &["s3cret-a", "s3cret-b"]).start().await;
        pair.host.expire_after(0, 0);
        pair.host.expire_after(1, 0);
        for _ in 0..3 {
            let error = pair.ask().await.unwrap_err();
            let GitHubError::Unauthorised { until } = error else {
                panic!("{error:?}");
            };
            assert!((3_590..=3_600).contains(&seconds_until(until)));
            let counts = false;
            assert_eq!(error.next_step(), NextStep::Wait { until, counts });
        }
        assert_eq!(statuses(&pair.host), [(Some(0), 401), (Some(1), 401)]);
    }

    async fn a_host_that_wants_a_token_is_left_alone_without_one(on: Backend) {
        let pair = With::tokens_on(on, &[]).start().await;
        let wants = grip_testkit::github::Behaviour::status(401, "Requires authentication");
        pair.host.behave("/", wants);
        for _ in 0..2 {
            let error = pair.ask().await.unwrap_err();
            assert_matches!(error, GitHubError::Unauthorised { .. });
        }
        assert_eq!(pair.host.count(), 1);
    }

    async fn a_token_is_tried_again_by_one_call_and_then_used_as_before(on: Backend) {
        let with = With {
            options: Options {
                set_aside: Duration::from_millis(30),
                ..Options::default()
            },
            on,
            ..With::default()
        };
        let pair = with.start_with_repository().await;
        pair.host.expire_after(0, 0);
        assert!(pair.ask().await.is_err());
        let refused = async || {
            assert!(pair.ask().await.is_err());
            (pair.host.counts().unauthorised == 3).then_some(())
        };
        until("two more tries", refused).await.unwrap();
        pair.host.renew_token(0);
        until("the token works", async || pair.ask().await.ok())
            .await
            .unwrap();
        assert_eq!(pair.github.budget()[0].set_aside_until, None);
        pair.ask().await.unwrap();
    }

    async fn a_token_that_is_named_twice_has_one_budget(on: Backend) {
        let pair = With::tokens_on(on, &["s3cret-a"]).start_with_repository().await;
        let token = crate::Token::new("s3cret-a").unwrap();
        let options = Options {
            api: pair.host.api().parse().unwrap(),
            tokens: vec![token.clone(), token],
            ..Options::default()
        };
        let github = crate::GitHub::new(options, pair.egress.clone()).unwrap();
        for _ in 0..4 {
            let name = super::support::repo("acme/one");
            github.repository(&name).await.unwrap();
        }
        assert_eq!(github.budget().len(), 1);
    }
}
