//! The model of the protocol, played on a node without a network.

use std::collections::BTreeSet;

use anyhow::Result;
use grip_grasp::{DataSource, Millis, RepositoryStatus};
use grip_nostr::{Event, EventId, Timestamp};
use grip_testkit::{
    Answer, Author,
    model::{Campaign, Fixture, Repository, Restart, Status, Subject},
};
use grip_types::{Identifier, Origin};
use nostr::prelude::PublicKey;

use crate::{
    expiry::in_minutes,
    node::{Node, SERVICE, addr},
};

/// Stories that are played with the other tests.
const STORIES: u32 = 48;
const THREADS: u32 = 4;

impl Subject for Node {
    fn service(&self) -> String {
        SERVICE.to_owned()
    }

    fn clone_url(&self, _name: &str) -> Option<String> {
        None
    }

    async fn send(&mut self, event: &Event) -> Result<Answer> {
        let answer = Node::send(self, event).await;
        Ok(Answer {
            accepted: answer.accepted,
            message: answer.message,
        })
    }

    async fn arrive(&mut self, event: &Event) -> Result<()> {
        self.send_as(event, Origin::Synced).await;
        Ok(())
    }

    async fn push(&mut self, owner: &Author, name: &str, body: Vec<u8>) -> Result<()> {
        self.push_bytes(&addr(owner, name), body).await;
        Ok(())
    }

    async fn fetch(&mut self, name: &str, tip: &str, fixture: &Fixture) -> Result<()> {
        if !self.has_store(name) {
            return Ok(());
        }
        let pack = fixture.pack([tip]).to_vec();
        self.receive(name, pack).await.promote()?;
        let name = Identifier::parse(name)?;
        let source = DataSource::Fetch;
        self.grasp()
            .process_newly_available_git_data(&name, source)
            .await;
        Ok(())
    }

    async fn statuses(&mut self, events: &[&Event]) -> Result<Vec<Status>> {
        let mut statuses = Vec::new();
        for event in events {
            statuses.push(if self.serves(event) {
                Status::Served
            } else if self.grasp().is_held(&event.id) {
                Status::Held
            } else {
                Status::Gone
            });
        }
        Ok(statuses)
    }

    async fn repository(&mut self, owner: &Author, name: &str) -> Result<Option<Repository>> {
        let addr = addr(owner, name);
        let status = self.grasp().repository(&addr);
        Ok(status.map(|status| Repository {
            is_served: status == RepositoryStatus::Served,
            refs: self.refs(&addr),
        }))
    }

    async fn ban(&mut self, banned: &BTreeSet<PublicKey>) -> Result<()> {
        let banned = banned.clone();
        self.enforce(|policy| policy.event_blacklist = banned).await;
        Ok(())
    }

    async fn expire_held(&mut self, _held: &[EventId]) -> Result<()> {
        self.grasp().sweep(in_minutes(31)).await;
        Ok(())
    }

    async fn end_expired(&mut self) -> Result<()> {
        let now = Millis::from(Timestamp::now());
        self.grasp().sweep(now).await;
        self.grasp().end_expired().await;
        Ok(())
    }

    async fn restart(&mut self, how: Restart) -> Result<()> {
        match how {
            Restart::Orderly | Restart::Killed => self.start_next(SERVICE, 0),
            Restart::DiskFull => self.start_next(SERVICE, u64::MAX),
            Restart::Renamed => self.start_next("renamed.example.com", 0),
        }
        if how == Restart::Killed {
            self.cut().await;
        } else {
            self.start_again(|| {}).await;
        }
        Ok(())
    }

    async fn lose_database(&mut self) -> Result<()> {
        self.close_journal().await;
        Ok(())
    }

    async fn audit(&mut self, name: &str) -> Result<Vec<String>> {
        let found = self.grasp().audit(&Identifier::parse(name)?).await?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    fn is_at_rest(&self) -> bool {
        true
    }

    async fn close(self) -> Result<()> {
        self.end().await;
        Ok(())
    }
}

#[test]
fn random_stories_leave_relay_and_git_in_agreement() {
    let campaign = Campaign::from_env(STORIES, THREADS).unwrap();
    let played = campaign.play(async |_| Ok(Node::start().await));
    let played = played.unwrap_or_else(|error| panic!("{error:#}"));
    println!("{campaign:?}: {played}");
    played.must_have_happened().unwrap();
}
