//! Commands, and the rows that are written of them.

use grip_db::{Connection, DbError, Value};
use serde::Deserialize;

use super::{CommandResult, sql};
use crate::{InvalidKey, Key};

/// Longest text of a request that is kept.
const MAX_TEXT: usize = 200;
/// How long an idempotency key counts: a day.
const KEY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Kinds of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Pin,
    Unpin,
    Reindex,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Keeps the manifest that the key resolves to, and provides it from here on.
    Pin(Key),
    /// Unpins what the key names: one manifest, or all of a repository.
    Unpin(Key),
    /// Publishes everything that is served again, and clears the cache.
    Reindex,
}

/// Why the body of a request is no command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidCommand {
    #[error("the body is a JSON object with `key` and nothing else")]
    NotJson,
    #[error("the body has no `key`")]
    NoKey,
    #[error("everything is indexed again: leave out `key`")]
    NeedlessKey,
    #[error(transparent)]
    Key(#[from] InvalidKey),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    key: Option<String>,
}

impl Action {
    /// Its name in paths and audit rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Reindex => "reindex",
        }
    }
}

impl Command {
    /// Reads a command from the body of a request; one that is about everything may have none.
    pub fn read(action: Action, body: &[u8]) -> Result<Self, InvalidCommand> {
        let wire = match body {
            [] => Wire::default(),
            body => serde_json::from_slice(body).map_err(|_| InvalidCommand::NotJson)?,
        };
        match (action, wire.key) {
            (Action::Reindex, None) => Ok(Self::Reindex),
            (Action::Reindex, Some(_)) => Err(InvalidCommand::NeedlessKey),
            (_, None) => Err(InvalidCommand::NoKey),
            (Action::Pin, Some(key)) => Ok(Self::Pin(Key::parse(&key)?)),
            (Action::Unpin, Some(key)) => Ok(Self::Unpin(Key::parse(&key)?)),
        }
    }

    fn action(&self) -> Action {
        match self {
            Self::Pin(_) => Action::Pin,
            Self::Unpin(_) => Action::Unpin,
            Self::Reindex => Action::Reindex,
        }
    }

    /// The key, or "everything".
    pub fn subject(&self) -> String {
        match self {
            Self::Pin(key) | Self::Unpin(key) => key.to_string(),
            Self::Reindex => "everything".to_owned(),
        }
    }
}

/// The sender of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandContext {
    /// An npub, or another word for who proved to be allowed.
    pub actor: String,
    /// Makes two requests with the same key one command.
    pub idempotency_key: Option<String>,
    /// Leads to the request in the log.
    pub correlation: Option<String>,
}

/// A text that is no idempotency key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an idempotency key has 1 to {MAX_TEXT} printable ASCII characters")]
pub struct InvalidIdempotencyKey;

#[derive(Clone, Debug)]
pub(super) struct AuditRecord {
    pub actor: String,
    pub action: &'static str,
    pub subject: String,
    key: Option<String>,
    correlation: Option<String>,
}

impl AuditRecord {
    pub fn new(context: &CommandContext, command: &Command) -> Result<Self, InvalidIdempotencyKey> {
        let is_key = |key: &String| {
            let is_printable = |b: u8| b.is_ascii_graphic() || b == b' ';
            (1..=MAX_TEXT).contains(&key.len()) && key.bytes().all(is_printable)
        };
        if context.idempotency_key.iter().any(|key| !is_key(key)) {
            return Err(InvalidIdempotencyKey);
        }
        Ok(Self {
            actor: printable(&context.actor),
            action: command.action().name(),
            subject: command.subject(),
            key: context.idempotency_key.clone(),
            correlation: context.correlation.as_deref().map(printable),
        })
    }

    pub fn result(&self, outcome: String) -> CommandResult {
        CommandResult {
            action: self.action,
            subject: self.subject.clone(),
            outcome,
            repeated: false,
        }
    }

    pub fn idempotency_key(&self) -> Option<[Value; 2]> {
        let key = self.key.clone()?;
        Some([self.actor.clone().into(), key.into()])
    }

    /// Writes the idempotency key and the audit row; gives up if the key is taken. Old keys go.
    pub async fn write(
        &self,
        db: &mut Connection<'_>,
        outcome: &str,
        now: i64,
    ) -> Result<(), DbError> {
        if let Some([actor, key]) = self.idempotency_key() {
            db.execute(&sql::FORGET_ORDERS, &[(now - KEY_MS).into()])
                .await?;
            let row = [
                actor,
                key,
                self.action.into(),
                self.subject.clone().into(),
                outcome.to_owned().into(),
                now.into(),
            ];
            if db.execute(&sql::TAKE_ORDER, &row).await? != 1 {
                return Err(DbError::Aborted);
            }
        }
        let row = [
            now.into(),
            self.actor.clone().into(),
            self.action.into(),
            self.subject.clone().into(),
            outcome.to_owned().into(),
            self.correlation.clone().into(),
        ];
        db.execute(&sql::AUDIT, &row).await.map(|_| ())
    }
}

fn printable(text: &str) -> String {
    let printable = text.chars().filter(|c| !c.is_control());
    printable.take(MAX_TEXT).collect()
}
