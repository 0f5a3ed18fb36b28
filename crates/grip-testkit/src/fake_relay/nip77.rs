//! The side of a relay in a comparison by NIP-77.

use std::collections::BTreeMap;

use negentropy::{Id, Negentropy, NegentropyStorageVector};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{honest, matches};

/// A relay with NIP-77: what it says it has may be more than what it gives.
#[derive(Debug, Default)]
pub struct Nip77 {
    /// Filters of the comparisons that are under way.
    open: Mutex<BTreeMap<String, Value>>,
}

impl Nip77 {
    /// What a relay says that has `events`, 500 events a page.
    pub fn answer(&self, message: &Value, events: &[Value]) -> Vec<Value> {
        self.compare(message, events)
            .unwrap_or_else(|| honest(message, events))
    }

    /// The answer to a message of a comparison; none to any other.
    pub fn compare(&self, message: &Value, events: &[Value]) -> Option<Vec<Value>> {
        let name = message[1].as_str()?;
        let (filter, query) = match message[0].as_str()? {
            "NEG-OPEN" => {
                let filter = message[2].clone();
                let mut open = self.open.lock();
                open.insert(name.to_owned(), filter.clone());
                (filter, &message[3])
            }
            "NEG-MSG" => (self.open.lock().get(name)?.clone(), &message[2]),
            "NEG-CLOSE" => {
                self.open.lock().remove(name);
                return Some(Vec::new());
            }
            _ => return None,
        };
        let having = events.iter().filter(|event| matches(&filter, event));
        let answer = reconcile(having, query.as_str()?);
        Some(vec![match answer {
            Some(answer) => json!(["NEG-MSG", name, answer]),
            None => json!(["NEG-ERR", name, "invalid: no message of NIP-77"]),
        }])
    }
}

fn reconcile<'a>(having: impl Iterator<Item = &'a Value>, query: &str) -> Option<String> {
    let mut storage = NegentropyStorageVector::new();
    for event in having {
        let id = bytes(event["id"].as_str()?)?;
        let at = event["created_at"].as_u64()?;
        storage.insert(at, Id::from_slice(&id).ok()?).ok()?;
    }
    storage.seal().ok()?;
    let mut side = Negentropy::owned(storage, 0).ok()?;
    let answer = side.reconcile(&bytes(query)?).ok()?;
    Some(answer.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let pairs = (0..hex.len()).step_by(2);
    pairs
        .map(|at| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok())
        .collect()
}
