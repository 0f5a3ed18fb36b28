//! Memory of each relay over restarts: progress, pauses and health, one row each.

use grip_db::{Db, DbError};
use serde::{Deserialize, Serialize};

use crate::{
    RelayUrl,
    health::Health,
    session::{Everything, Progress},
};

grip_db::statements! {
    pub(crate) mod sql {
        LOAD = "SELECT memory, everything FROM follow_relays WHERE node = $1 AND relay = $2";
        SAVE_EVERYTHING = "UPDATE follow_relays SET everything = $3 \
                           WHERE node = $1 AND relay = $2";
        SAVE = "INSERT INTO follow_relays (node, relay, memory, saved_at) VALUES ($1, $2, $3, $4) \
                ON CONFLICT (node, relay) DO UPDATE \
                SET memory = excluded.memory, saved_at = excluded.saved_at";
        FORGET = "DELETE FROM follow_relays WHERE node = $1 AND saved_at < $2";
    }
}

/// A relay that was not followed for so long is forgotten.
const LIFETIME_MS: i64 = 30 * 86_400_000;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Memory {
    pub(crate) progress: Progress,
    pub(crate) health: Health,
    /// It is a private service, and this one is public: it is not asked again for hours, nor for git.
    pub(crate) is_private: bool,
}

/// The rows of this node.
#[derive(Clone)]
pub(crate) struct Memories(pub(crate) Db);

impl Memories {
    /// What is remembered of a relay; a row that cannot be read is as good as none.
    pub(crate) async fn load(&self, relay: &RelayUrl) -> Memory {
        let key = [self.0.node().into(), relay.as_str().into()];
        let found: Result<Option<(String, String)>, DbError> =
            self.0.fetch_optional(&sql::LOAD, &key).await;
        let text = match found {
            Ok(text) => text,
            Err(error) => {
                warn(relay, &error, "failed to load the progress of a relay");
                None
            }
        };
        let (memory, everything) = text.unwrap_or_default();
        let mut memory: Memory = serde_json::from_str(&memory).unwrap_or_default();
        memory.progress.everything = Everything::from_text(&everything);
        Memory {
            health: memory.health.restored(),
            ..memory
        }
    }

    pub(crate) async fn save(&self, relay: &RelayUrl, memory: &Memory) {
        let text = serde_json::to_string(memory).expect("numbers and texts are JSON");
        let values = [
            self.0.node().into(),
            relay.as_str().into(),
            text.into(),
            self.0.now_ms().into(),
        ];
        let saved = self.0.write_one(move |mut db| {
            Box::pin(async move { db.execute(&sql::SAVE, &values).await })
        });
        if let Err(error) = saved.await {
            warn(relay, &error, "failed to save the progress of a relay");
        }
    }

    /// Saves how all that a relay has differs from what is here; its row is there already.
    pub(crate) async fn save_everything(&self, relay: &RelayUrl, everything: Option<&Everything>) {
        let text = everything.map(Everything::to_text).unwrap_or_default();
        let key = [self.0.node().into(), relay.as_str().into(), text.into()];
        if let Err(error) = self.0.execute(&sql::SAVE_EVERYTHING, &key).await {
            warn(relay, &error, "failed to save what a relay has");
        }
    }

    /// Forgets relays that are followed no more.
    pub(crate) async fn sweep(&self) {
        let values = [self.0.node().into(), (self.0.now_ms() - LIFETIME_MS).into()];
        let swept = self.0.write_one(move |mut db| {
            Box::pin(async move { db.execute(&sql::FORGET, &values).await })
        });
        if let Err(error) = swept.await {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "failed to forget old relays"
            );
        }
    }
}

fn warn(relay: &RelayUrl, error: &DbError, what: &'static str) {
    tracing::warn!(%relay, error = error as &dyn std::error::Error, "{what}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use grip_db::{on_both_engines, prepare_all};

    use super::*;
    use crate::health::{Backoff, Loss};

    on_both_engines! {
    async fn every_statement_is_understood(database: TestDatabase) {
        prepare_all(database.db(), sql::ALL).await.unwrap();
    }

    async fn g02_48_pauses_and_progress_survive_a_restart(database: TestDatabase) {
        let memories = Memories(database.db().clone());
        let relay = RelayUrl::parse("wss://relay.example").unwrap();
        let mut memory = memories.load(&relay).await;
        memory.health.lost(Loss::Faulty, &Backoff::default(), 1_000);
        memory.progress.limit_rate(1_000);
        memories.save(&relay, &memory).await;
        memories.save(&relay, &memory).await;
        memories.sweep().await;
        let again = memories.load(&relay).await;
        assert_eq!(again.health.wait(1_000), Duration::from_secs(43_200));
        assert!(again.progress.is_rate_limited(1_064) && !again.progress.is_rate_limited(1_065));
        let other = RelayUrl::parse("wss://other.example").unwrap();
        assert_eq!(memories.load(&other).await.health.wait(1_000), Duration::ZERO);
        assert!(again.progress.everything.is_none());
        memories.save_everything(&relay, Some(&Everything::default())).await;
        memories.save(&relay, &memory).await;
        assert!(memories.load(&relay).await.progress.everything.is_some());
        memories.save_everything(&relay, None).await;
        assert!(memories.load(&relay).await.progress.everything.is_none());
    }    }
}
