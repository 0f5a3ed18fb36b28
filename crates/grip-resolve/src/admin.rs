//! Commands of an operator: pin, unpin, reindex.
//!
//! Invariants:
//! - A change, its audit row and its idempotency key are one transaction.
//! - A command with an idempotency key that was used before is not executed again; it gets the
//!   same result.
//! - One command at a time, each to its end, whether or not its caller waits: so the pins in
//!   memory are those of the database.
//! - Authorisation is decided before a command comes here.

mod command;

use std::{panic::resume_unwind, time::Duration};

use grip_db::{Db, DbError, Statement, Value};
use grip_tasks::{Busy, Lanes};
use grip_types::Owner;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use command::AuditRecord;
pub use command::{Action, Command, CommandContext, InvalidCommand, InvalidIdempotencyKey};

use crate::{
    BusyCause, Key, Manifest, ManifestId, ResolveError, ResolveParams, Resolver,
    local_manifests::MAX_PINS, manifest::MAX_RECORD_BYTES, off_runtime,
};

/// Commands that wait for the current one; further ones are refused.
const MAX_WAITING: usize = 16;

grip_db::statements! {
    pub(crate) mod sql {
        MANIFESTS = "SELECT id, manifest FROM resolve_pins ORDER BY pinned_at, id";
        MANIFESTS_OF_ID = "SELECT id, manifest FROM resolve_pins WHERE id = $1";
        MANIFESTS_OF_NAME = "SELECT id, manifest FROM resolve_pins WHERE name = $1 \
                             ORDER BY pinned_at, id";
        PINS = "SELECT id, name, pinned_by, pinned_at FROM resolve_pins ORDER BY name, id";
        PIN = "INSERT INTO resolve_pins (id, name, manifest, pinned_by, pinned_at) \
               VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";
        UNPIN_ID = "DELETE FROM resolve_pins WHERE id = $1";
        UNPIN_NAME = "DELETE FROM resolve_pins WHERE name = $1";
        FIND_ORDER = "SELECT action, subject, outcome FROM resolve_orders \
                      WHERE actor = $1 AND idempotency_key = $2";
        TAKE_ORDER = "INSERT INTO resolve_orders \
                          (actor, idempotency_key, action, subject, outcome, at) \
                      VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING";
        FORGET_ORDERS = "DELETE FROM resolve_orders WHERE at < $1";
        AUDIT = "INSERT INTO resolve_audit (at, actor, action, subject, outcome, correlation) \
                 VALUES ($1, $2, $3, $4, $5, $6)";
        AUDITED = "SELECT id, at, actor, action, subject, outcome, correlation \
                   FROM resolve_audit ORDER BY id DESC LIMIT $1";
    }
}

/// Executes commands. Cheap to clone.
#[derive(Clone)]
pub struct Admin {
    db: Db,
    resolver: Resolver,
    turns: Lanes<()>,
}

/// The result of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CommandResult {
    pub action: &'static str,
    /// The key, or "everything".
    pub subject: String,
    /// One word and, where there is one, an id.
    pub outcome: String,
    /// It was executed before, under the same idempotency key.
    pub repeated: bool,
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    #[error(transparent)]
    IdempotencyKey(#[from] InvalidIdempotencyKey),
    #[error("this idempotency key was used for another command")]
    KeyReused,
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error("{MAX_PINS} manifests are pinned already: unpin some first")]
    TooManyPins,
    #[error("the manifest is longer than {MAX_RECORD_BYTES} bytes, so it cannot be pinned")]
    TooLong,
    #[error("the database failed")]
    Db(#[from] DbError),
}

/// A pinned manifest.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct Pin {
    pub id: String,
    pub name: String,
    pub pinned_by: String,
    pub pinned_at: i64,
}

grip_db::from_row!(Pin {
    id,
    name,
    pinned_by,
    pinned_at
});

/// One executed command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct AuditEntry {
    pub id: i64,
    pub at: i64,
    pub actor: String,
    pub action: String,
    pub subject: String,
    pub outcome: String,
    pub correlation: Option<String>,
}

grip_db::from_row!(AuditEntry {
    id,
    at,
    actor,
    action,
    subject,
    outcome,
    correlation
});

impl Admin {
    /// Loads the pins of earlier runs.
    pub async fn open(db: Db, resolver: Resolver) -> Result<Self, DbError> {
        let rows: Vec<(String, String)> = db.fetch_all(&sql::MANIFESTS, &[]).await?;
        let core = resolver.core();
        let bytes = rows.iter().map(|(_, manifest)| manifest.len()).sum();
        let read = move || rows.iter().filter_map(read_pin).collect::<Vec<_>>();
        for manifest in off_runtime::run(&core.group, bytes, read)
            .await
            .unwrap_or_default()
        {
            if !core.local_manifests.pin(&manifest) {
                tracing::warn!(id = %manifest.id(), "ignored pin: there are too many");
            }
        }
        resolver.core().publisher.reindex();
        Ok(Self {
            db,
            resolver,
            turns: Lanes::new(MAX_WAITING),
        })
    }

    /// All pins, by name.
    pub async fn pins(&self) -> Result<Vec<Pin>, DbError> {
        self.db.fetch_all(&sql::PINS, &[]).await
    }

    /// The last commands, the latest first.
    pub async fn audit(&self, limit: u32) -> Result<Vec<AuditEntry>, DbError> {
        let limit = i64::from(limit.min(1_000));
        self.db.fetch_all(&sql::AUDITED, &[limit.into()]).await
    }

    /// Executes a command, after those that came before it.
    ///
    /// Cancel safe: once begun it goes on to its end, and `ended` gets the result, whether or not
    /// the caller waits. If `ended` is dropped uncalled, the node was stopped in the middle.
    pub async fn execute(
        &self,
        command: Command,
        context: CommandContext,
        ended: impl FnOnce(&Result<CommandResult, AdminError>) + Send + 'static,
    ) -> Result<CommandResult, AdminError> {
        let admin = self.clone();
        let executing = async move {
            let result = admin.execute_in_turn(&command, &context).await;
            ended(&result);
            result
        };
        let group = &self.resolver.core().group;
        match group.spawn("resolve.order", executing).await {
            Ok(result) => result,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Err(ResolveError::Canceled.into()),
        }
    }

    async fn execute_in_turn(
        &self,
        command: &Command,
        context: &CommandContext,
    ) -> Result<CommandResult, AdminError> {
        let busy = |Busy| ResolveError::Busy {
            cause: BusyCause::Commands,
            retry_after: Duration::from_secs(1),
        };
        let _turn = self
            .turns
            .enter(&(), Owner::default())
            .await
            .map_err(busy)?;
        let record = AuditRecord::new(context, command)?;
        let result = match (self.repeated(&record).await?, command) {
            (Some(before), _) => Ok(before),
            (None, Command::Pin(key)) => self.pin(key, record).await,
            (None, Command::Unpin(key)) => self.unpin(key, record).await,
            (None, Command::Reindex) => self.reindex(record).await,
        };
        // Whatever the result: a failure may come after the change, and an earlier change may not
        // have been loaded.
        if let Command::Pin(key) | Command::Unpin(key) = command {
            self.reload_pins(key).await;
        }
        result
    }

    async fn pin(&self, key: &Key, record: AuditRecord) -> Result<CommandResult, AdminError> {
        let resolved = self.resolver.resolve(key, ResolveParams::default());
        let manifest = resolved.await?.manifest;
        if !manifest.fits_a_record() {
            return Err(AdminError::TooLong);
        }
        if !self.resolver.core().local_manifests.has_room_for(&manifest) {
            return Err(AdminError::TooManyPins);
        }
        let text = String::from_utf8(manifest.bytes().to_vec()).expect("because it is JSON");
        let row = vec![
            manifest.id().to_string().into(),
            manifest.name().to_string().into(),
            text.into(),
            record.actor.clone().into(),
            self.db.now_ms().into(),
        ];
        let outcome = format!("pinned {}", manifest.id());
        self.commit(record, Some((&sql::PIN, row)), |_| outcome)
            .await
    }

    async fn unpin(&self, key: &Key, record: AuditRecord) -> Result<CommandResult, AdminError> {
        let (statement, named) = match key {
            Key::Name(name) => (&sql::UNPIN_NAME, name.to_string()),
            Key::Manifest(id) => (&sql::UNPIN_ID, id.to_string()),
        };
        let change = Some((statement, vec![named.into()]));
        self.commit(record, change, |gone| format!("unpinned {gone}"))
            .await
    }

    async fn reindex(&self, record: AuditRecord) -> Result<CommandResult, AdminError> {
        let committed = self.commit(record, None, |_| "begun".to_owned()).await?;
        if !committed.repeated {
            self.resolver.forget_all();
            self.resolver.core().publisher.reindex();
        }
        Ok(committed)
    }

    /// Writes a change, its audit row and its idempotency key in one transaction. `outcome` gets
    /// the number of changed rows.
    async fn commit(
        &self,
        record: AuditRecord,
        change: Option<(&'static Statement, Vec<Value>)>,
        outcome: impl FnOnce(u64) -> String + Send + 'static,
    ) -> Result<CommandResult, AdminError> {
        let (writing, now) = (record.clone(), self.db.now_ms());
        let written = self
            .db
            .write(move |mut db| {
                Box::pin(async move {
                    let changed = match &change {
                        Some((statement, values)) => db.execute(statement, values).await?,
                        None => 0,
                    };
                    let result = writing.result(outcome(changed));
                    writing.write(&mut db, &result.outcome, now).await?;
                    Ok(result)
                })
            })
            .await;
        match written {
            Ok(result) => Ok(result),
            // The same key was used in between: its result counts.
            Err(DbError::Aborted) => {
                let before = self.repeated(&record).await?;
                before.ok_or(AdminError::KeyReused)
            }
            Err(error) => Err(AdminError::Db(error)),
        }
    }

    /// The result of the same command, if it was executed before.
    async fn repeated(&self, record: &AuditRecord) -> Result<Option<CommandResult>, AdminError> {
        let Some(key) = record.idempotency_key() else {
            return Ok(None);
        };
        let found = self.db.fetch_optional(&sql::FIND_ORDER, &key).await?;
        let Some::<(String, String, String)>((action, subject, outcome)) = found else {
            return Ok(None);
        };
        if action != record.action || subject != record.subject {
            return Err(AdminError::KeyReused);
        }
        Ok(Some(CommandResult {
            repeated: true,
            ..record.result(outcome)
        }))
    }

    /// Loads the pins of `key` from the database, and has changed ones published. If they cannot
    /// be read, the pins in memory stay as they are.
    async fn reload_pins(&self, key: &Key) {
        let (statement, named) = match key {
            Key::Name(name) => (&sql::MANIFESTS_OF_NAME, name.to_string()),
            Key::Manifest(id) => (&sql::MANIFESTS_OF_ID, id.to_string()),
        };
        let rows: Result<Vec<(String, String)>, DbError> =
            self.db.fetch_all(statement, &[named.into()]).await;
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%key, error, "failed to reload pins");
                return;
            }
        };
        let core = self.resolver.core();
        let (mut pinned, mut unread) = (Vec::new(), Vec::new());
        for row in rows {
            let known = ManifestId::parse(&row.0).ok();
            match known.and_then(|id| core.local_manifests.pin_of(&id)) {
                Some(manifest) => pinned.push(manifest),
                None => unread.push(row),
            }
        }
        let bytes = unread.iter().map(|(_, manifest)| manifest.len()).sum();
        let read = move || unread.iter().filter_map(read_pin).collect::<Vec<_>>();
        let Some(read) = off_runtime::run(&core.group, bytes, read).await else {
            return;
        };
        pinned.extend(read);
        for name in core.local_manifests.set_pins(key, &pinned) {
            core.publisher.touch(name);
        }
    }
}

/// The manifest of a row.
fn read_pin((id, text): &(String, String)) -> Option<Manifest> {
    Manifest::decode(text.as_bytes())
        .inspect_err(|error| tracing::warn!(id, %error, "failed to read pin"))
        .ok()
}

#[cfg(test)]
mod tests;
