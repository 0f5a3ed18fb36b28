//! Rows of replicas, one for each repository.

use std::collections::HashMap;

use grip_db::{Db, DbError};

use super::replicas::Saved;

grip_db::statements! {
    pub(crate) mod sql {
        LOAD = "SELECT repo, replicas FROM follow_replicas WHERE node = $1";
        SAVE = "INSERT INTO follow_replicas (node, repo, replicas, saved_at) \
                VALUES ($1, $2, $3, $4) ON CONFLICT (node, repo) DO UPDATE \
                SET replicas = excluded.replicas, saved_at = excluded.saved_at";
        FORGET = "DELETE FROM follow_replicas WHERE node = $1 AND repo = $2";
    }
}

/// Rows of one transaction.
const AT_ONCE: usize = 200;

/// Those of this node.
pub(super) struct Rows(pub(super) Db);

/// What was to be written: repositories that changed, and those that are gone.
pub(super) type Changes = (Vec<(String, Saved)>, Vec<String>);

impl Rows {
    /// What is written; a row that cannot be read is as good as none.
    pub(super) async fn load(&self) -> HashMap<String, Saved> {
        let node = [self.0.node().into()];
        let rows: Result<Vec<(String, String)>, DbError> =
            self.0.fetch_all(&sql::LOAD, &node).await;
        let rows = rows.unwrap_or_else(|error| {
            warn(&error, "failed to load what is known of replicas");
            Vec::new()
        });
        let read = |(repo, text): (String, String)| Some((repo, serde_json::from_str(&text).ok()?));
        rows.into_iter().filter_map(read).collect()
    }

    /// Writes; hands back what could not be written.
    pub(super) async fn save(
        &self,
        mut changed: Vec<(String, Saved)>,
        mut gone: Vec<String>,
    ) -> Result<(), Changes> {
        while !changed.is_empty() || !gone.is_empty() {
            let rest = changed.split_off(AT_ONCE.min(changed.len()));
            let rest_gone = gone.split_off(AT_ONCE.min(gone.len()));
            if let Err(error) = self.write(&changed, &gone).await {
                warn(&error, "failed to save what is known of replicas");
                changed.extend(rest);
                gone.extend(rest_gone);
                return Err((changed, gone));
            }
            (changed, gone) = (rest, rest_gone);
        }
        Ok(())
    }

    async fn write(&self, changed: &[(String, Saved)], gone: &[String]) -> Result<(), DbError> {
        let (node, now) = (self.0.node().to_owned(), self.0.now_ms());
        let rows: Vec<(String, String)> = changed
            .iter()
            .map(|(repo, saved)| {
                let text = serde_json::to_string(saved).expect("numbers and texts are JSON");
                (repo.clone(), text)
            })
            .collect();
        let gone = gone.to_vec();
        let write = self.0.write(move |mut db| {
            Box::pin(async move {
                for repo in gone {
                    db.execute(&sql::FORGET, &[node.as_str().into(), repo.into()])
                        .await?;
                }
                for (repo, text) in rows {
                    let values = [node.as_str().into(), repo.into(), text.into(), now.into()];
                    db.execute(&sql::SAVE, &values).await?;
                }
                Ok(())
            })
        });
        write.await
    }
}

fn warn(error: &DbError, what: &'static str) {
    tracing::warn!(error = error as &dyn std::error::Error, "{what}");
}

#[cfg(test)]
mod tests {
    use grip_db::{on_both_engines, prepare_all};

    use super::*;

    on_both_engines! {
    async fn every_statement_is_understood(database: TestDatabase) {
        prepare_all(database.db(), sql::ALL).await.unwrap();
    }

    async fn what_is_known_of_replicas_survives_a_restart(database: TestDatabase) {
        let rows = Rows(database.db().clone());
        let saved: Saved = serde_json::from_value(serde_json::json!({
            "state": "ab".repeat(32), "state_at": 7,
            "replicas": [["wss://relay.example", {"status": "behind", "since": 5}]],
        }))
        .unwrap();
        let names = ["npub1x/a.git".to_owned(), "npub1x/b.git".to_owned()];
        let changed = names.iter().map(|name| (name.clone(), saved.clone())).collect();
        rows.save(changed, Vec::new()).await.unwrap();
        rows.save(Vec::new(), vec![names[0].clone()]).await.unwrap();
        let again = rows.load().await;
        let text = |saved: &Saved| serde_json::to_string(saved).unwrap();
        assert_eq!(again.len(), 1);
        assert_eq!(text(&again[&names[1]]), text(&saved));
    }    }
}
