//! Orders and what is written down of them.

use grip_db::{Connection, DbError, Value};

use super::{Done, KEY_MS, statements::sql};
use crate::Key;

/// Longest text that is kept of an order.
const MAX_TEXT: usize = 200;

/// What may be ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Keeps what the key resolves to, and provides it from here on.
    Pin(Key),
    /// Keeps no longer what the key names: one manifest, or all of a repository.
    Unpin(Key),
    /// Has everything that is served read and told anew, and forgets what was resolved.
    Reindex,
}

impl Command {
    fn action(&self) -> &'static str {
        match self {
            Self::Pin(_) => "pin",
            Self::Unpin(_) => "unpin",
            Self::Reindex => "reindex",
        }
    }

    /// The key, or what is meant.
    pub fn subject(&self) -> String {
        match self {
            Self::Pin(key) | Self::Unpin(key) => key.to_string(),
            Self::Reindex => "everything".to_owned(),
        }
    }
}

/// Who orders something, and under which key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// An npub, or another word for who proved to be allowed.
    pub actor: String,
    /// What makes two sendings of one order one order.
    pub idempotency_key: Option<String>,
    /// Leads to the request in the log.
    pub correlation: Option<String>,
}

/// Why an order cannot be written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an idempotency key has 1 to {MAX_TEXT} printable ASCII characters")]
pub struct InvalidOrder;

/// What is written down.
#[derive(Clone, Debug)]
pub(super) struct Record {
    pub actor: String,
    pub action: &'static str,
    pub subject: String,
    outcome: String,
    key: Option<String>,
    correlation: Option<String>,
}

impl Record {
    pub fn new(order: &Order, command: &Command) -> Result<Self, InvalidOrder> {
        let is_key = |key: &String| {
            let is_printable = |b: u8| b.is_ascii_graphic() || b == b' ';
            (1..=MAX_TEXT).contains(&key.len()) && key.bytes().all(is_printable)
        };
        if order.idempotency_key.iter().any(|key| !is_key(key)) {
            return Err(InvalidOrder);
        }
        Ok(Self {
            actor: clean(&order.actor),
            action: command.action(),
            subject: command.subject(),
            outcome: String::new(),
            key: order.idempotency_key.clone(),
            correlation: order.correlation.as_deref().map(clean),
        })
    }

    pub fn with_outcome(self, outcome: String) -> Self {
        Self { outcome, ..self }
    }

    pub fn done(&self) -> Done {
        Done {
            action: self.action,
            subject: self.subject.clone(),
            outcome: self.outcome.clone(),
            repeated: false,
        }
    }

    pub fn lookup(&self) -> Option<[Value; 2]> {
        let key = self.key.clone()?;
        Some([self.actor.clone().into(), key.into()])
    }

    /// Takes the idempotency key; false if another has taken it. Old keys go.
    pub async fn begin(&self, db: &mut Connection<'_>, now: i64) -> Result<bool, DbError> {
        let Some([actor, key]) = self.lookup() else {
            return Ok(true);
        };
        db.execute(&sql::FORGET_ORDERS, &[(now - KEY_MS).into()])
            .await?;
        let row = [
            actor,
            key,
            self.action.into(),
            self.subject.clone().into(),
            self.outcome.clone().into(),
            now.into(),
        ];
        Ok(db.execute(&sql::TAKE_ORDER, &row).await? == 1)
    }

    pub async fn audit(&self, db: &mut Connection<'_>, now: i64) -> Result<(), DbError> {
        let row = [
            now.into(),
            self.actor.clone().into(),
            self.action.into(),
            self.subject.clone().into(),
            self.outcome.clone().into(),
            self.correlation.clone().into(),
        ];
        db.execute(&sql::AUDIT, &row).await.map(|_| ())
    }
}

/// Printable and not too long.
fn clean(text: &str) -> String {
    let printable = text.chars().filter(|c| !c.is_control());
    printable.take(MAX_TEXT).collect()
}
