//! Why a push is refused, for every ref it names.

use std::collections::BTreeMap;

use grip_types::{RefEdit, RefName};

/// A push of which nothing is carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{summary}")]
pub(crate) struct Refusal {
    /// One line for a person.
    pub(crate) summary: String,
    /// Every ref of the push, once, in its order.
    pub(crate) refs: Vec<RefRefusal>,
}

/// The answer for one ref of a refused push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefRefusal {
    pub(crate) name: RefName,
    pub(crate) reason: String,
}

impl Refusal {
    pub(super) fn new(commands: &[RefEdit], faults: &BTreeMap<RefName, String>) -> Self {
        let mut at_fault = commands
            .iter()
            .filter_map(|c| faults.get_key_value(&c.name));
        let (culprit, summary) = at_fault
            .next()
            .map_or((None, String::new()), |(name, fault)| {
                (Some(name), fault.clone())
            });
        let whole = culprit.map_or_else(String::new, |name| {
            format!("the push is taken whole or not at all, and {name} was refused")
        });
        let mut refs: Vec<RefRefusal> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        for command in commands.iter().filter(|c| seen.insert(&c.name)) {
            let reason = faults.get(&command.name).unwrap_or(&whole);
            refs.push(RefRefusal {
                name: command.name.clone(),
                reason: reason.clone(),
            });
        }
        Self { summary, refs }
    }
}
