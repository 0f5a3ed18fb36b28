//! A history of issues that are made up as they are asked for.

use nostr::prelude::Timestamp;
use serde_json::{Value, json};

use super::honest;
use crate::{Author, events::tag};

/// Issues without end, each true and by a key of its own.
#[derive(Clone, Debug)]
pub struct EndlessIssues {
    /// How many are in the answer to one REQ.
    pub page: u64,
    pub content_bytes: usize,
    /// Coordinates that each names beside the first it is asked about.
    pub also_about: Vec<String>,
}

impl EndlessIssues {
    /// The answers to a message of a client that has no NIP-77 here.
    pub(super) fn answer(&self, message: &Value) -> Vec<Value> {
        let filter = &message[2];
        let about = filter["#a"][0].as_str();
        let Some(about) = about.filter(|_| message[0] == "REQ" && filter["limit"].is_null()) else {
            return honest(message, &[]);
        };
        let until = filter["until"].as_u64();
        let until = until.unwrap_or_else(|| Timestamp::now().as_secs());
        let coordinates = || {
            [about]
                .into_iter()
                .chain(self.also_about.iter().map(String::as_str))
        };
        let issue = |n: u64| {
            let content = format!("{n:0width$}", width = self.content_bytes);
            let tags = coordinates().map(|it| tag(["a", it])).collect();
            let issue = Author::new().sign_at(1621, &content, tags, (until - n).into());
            json!(["EVENT", message[1], issue])
        };
        let mut answers: Vec<Value> = (0..self.page).map(issue).collect();
        answers.push(json!(["EOSE", message[1]]));
        answers
    }
}
