//! Says why something is served, held or refused.

use grip_nostr::{Event, EventId, PullRequest, RepoAddr, State};
use grip_purgatory::{Millis, Placeholder, Waiting};
use grip_types::{Identifier, Oid, RefName};
use nostr::prelude::{FromBech32, Nip19Event};
use serde::Serialize;

use crate::{
    Grasp, LookError, Refusal, RepositorySummary,
    admission::{Arrival, Found, Origin, View, ViewError, admit},
    grasp::{Core, timestamp},
    settle::in_words,
    summary::npub,
    trouble::Trouble,
    world::World,
};

/// How many missing objects and refusals are listed.
const MAX_LISTED: usize = 50;

/// The answer to "what about this event, or this repository?".
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// As it was asked for.
    pub subject: String,
    pub status: Status,
    /// One sentence for a person.
    pub summary: String,
    pub event: Option<EventFacts>,
    /// The rules that were asked, in their order, each with what it said.
    pub chain: Vec<String>,
    /// What it waits for; the first of them.
    pub missing: Vec<Missing>,
    pub missing_total: usize,
    /// When it is given up (unix milliseconds).
    pub deadline: Option<i64>,
    pub repository: Option<RepositorySummary>,
    /// The held events of a repository's identifier.
    pub held: Vec<EventFacts>,
    /// What was refused of late, newest first.
    pub refusals: Vec<Refusal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Served,
    Held,
    /// Not the event but its ref is here: pushed ahead of it.
    Awaited,
    Refused,
    Unknown,
}

#[derive(Clone, Debug, Serialize)]
pub struct EventFacts {
    pub id: String,
    pub kind: u16,
    pub author: String,
    pub created_at: u64,
    pub deadline: Option<i64>,
}

/// An object that is not here.
#[derive(Clone, Debug, Serialize)]
pub struct Missing {
    /// The ref that names it.
    pub name: String,
    pub oid: Oid,
}

enum Subject {
    Event(EventId),
    Repository(RepoAddr),
}

impl Grasp {
    /// Explains an event (hex id, `note1…`, `nevent1…`) or a repository (`npub/identifier`, or
    /// its URL).
    pub async fn explain(&self, subject: &str) -> Result<Explanation, LookError> {
        let mut explanation = Explanation::new(subject);
        let parsed = parse(subject);
        let look = move |core: &Core| {
            match parsed {
                Some(Subject::Event(id)) => core.explain_event(&id, &mut explanation)?,
                Some(Subject::Repository(addr)) => {
                    core.explain_repository(&addr, &mut explanation)?;
                }
                None => {
                    let text = "neither an event id nor npub/identifier";
                    explanation.summary = text.to_owned();
                }
            }
            Ok::<_, Trouble>(explanation)
        };
        Ok(self.core.blocking("grasp.look", look).await??)
    }
}

fn parse(subject: &str) -> Option<Subject> {
    let subject = subject.trim().trim_end_matches('/');
    let bare = subject.strip_prefix("nostr:").unwrap_or(subject);
    if let Ok(id) = EventId::from_hex(bare) {
        return Some(Subject::Event(id));
    }
    if let Ok(id) = EventId::from_bech32(bare) {
        return Some(Subject::Event(id));
    }
    if let Ok(event) = Nip19Event::from_bech32(bare) {
        return Some(Subject::Event(event.event_id));
    }
    let (before, name) = subject.rsplit_once('/')?;
    let owner = before.rsplit('/').next().unwrap_or(before);
    let owner = RepoAddr::parse_npub(owner)?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    let identifier = Identifier::from_encoded(name).ok()?;
    Some(Subject::Repository(RepoAddr::new(owner, identifier)))
}

impl Explanation {
    fn new(subject: &str) -> Self {
        Self {
            subject: subject.chars().take(300).collect(),
            status: Status::Unknown,
            summary: "nothing is known of it here".to_owned(),
            event: None,
            chain: Vec::new(),
            missing: Vec::new(),
            missing_total: 0,
            deadline: None,
            repository: None,
            held: Vec::new(),
            refusals: Vec::new(),
        }
    }

    fn is(&mut self, status: Status, summary: impl Into<String>) {
        self.status = status;
        self.summary = summary.into();
    }

    fn lacks(&mut self, mut missing: Vec<Missing>) {
        self.missing_total = missing.len();
        missing.truncate(MAX_LISTED);
        self.missing = missing;
    }
}

impl Core {
    fn explain_event(&self, id: &EventId, to: &mut Explanation) -> Result<(), Trouble> {
        let refusal = self.refusals.of_event(id);
        let (held, placeholder) = {
            let purgatory = self.purgatory.lock();
            let held = purgatory.find_event(id).map(|waiting| {
                let held = waiting.held();
                (Event::clone(&held.event), held.deadline())
            });
            (held, purgatory.find_pr_placeholder(id).cloned())
        };
        let events = self.store.read().map_err(ViewError::new)?;
        let world = World::leaving_out(self, &events, *id);
        if let Some(event) = world.served_event(id)? {
            to.is(Status::Served, "it is served");
            to.event = Some(facts(&event, None));
            to.chain = self.chain(&event, &world)?;
        } else if let Some((event, deadline)) = held {
            to.is(Status::Held, "it is held until its git data arrives");
            to.event = Some(facts(&event, Some(deadline)));
            to.deadline = Some(deadline.get());
            to.chain = self.chain(&event, &world)?;
            to.lacks(missing(&event, &world)?);
        } else if let Some(refusal) = &refusal {
            to.is(
                Status::Refused,
                format!("it was refused: {}", refusal.reason),
            );
            to.chain = refusal.chain.clone();
        } else if let Some(placeholder) = placeholder {
            explain_placeholder(&placeholder, to);
        }
        to.refusals.extend(refusal);
        Ok(())
    }

    /// What admission says of an event now.
    fn chain(&self, event: &Event, view: &dyn View) -> Result<Vec<String>, ViewError> {
        let arrival = Arrival {
            now: timestamp(),
            origin: Origin::Submitted,
        };
        let decision = admit(event, view, &self.policy.load(), arrival)?;
        Ok(in_words(&decision.steps))
    }

    fn explain_repository(&self, addr: &RepoAddr, to: &mut Explanation) -> Result<(), Trouble> {
        to.repository = self.summary(addr)?;
        let announcement = {
            let purgatory = self.purgatory.lock();
            let states = purgatory.find_state(&addr.identifier).iter();
            let held = states.map(Waiting::State);
            let held = held.chain(purgatory.prs(&addr.identifier).map(Waiting::Pr));
            to.held = held
                .take(MAX_LISTED)
                .map(|waiting| facts(&waiting.held().event, Some(waiting.held().deadline())))
                .collect();
            let entry = purgatory.find_announcement(addr);
            entry.map(|entry| (Event::clone(&entry.held.event), entry.held.deadline()))
        };
        let events = self.store.read().map_err(ViewError::new)?;
        let world = World::new(self, &events);
        if let Some(event) = world.latest(&addr.announcement())? {
            to.is(Status::Served, "its announcement is served");
            to.event = Some(facts(&event, None));
        } else if let Some((event, deadline)) = announcement {
            let text = match to.repository.is_some() {
                true => "its announcement is held until the first push",
                false => "its announcement expired without a push; a new state brings it back",
            };
            to.is(Status::Held, text);
            let world = World::leaving_out(self, &events, event.id);
            to.chain = self.chain(&event, &world)?;
            to.event = Some(facts(&event, Some(deadline)));
            to.deadline = Some(deadline.get());
        }
        to.refusals = self.refusals.about(&addr.to_string(), MAX_LISTED);
        let of_identifier = self.refusals.about(addr.identifier.as_str(), MAX_LISTED);
        to.refusals.extend(of_identifier);
        if to.status == Status::Unknown
            && let Some(refusal) = to.refusals.first()
        {
            let text = format!("not here; refused of late: {}", refusal.reason);
            to.is(Status::Refused, text);
        }
        Ok(())
    }
}

fn explain_placeholder(placeholder: &Placeholder, to: &mut Explanation) {
    let refs = placeholder.refs.iter();
    let places: Vec<String> = refs
        .map(|(addr, pushed)| format!("{addr} at {}", pushed.commit.short()))
        .collect();
    let text = format!(
        "its ref was pushed to {}; the event has not come",
        places.join(", ")
    );
    to.is(Status::Awaited, text);
    let deadline = placeholder
        .refs
        .values()
        .map(|pushed| pushed.expires_at)
        .min();
    to.deadline = deadline.map(Millis::get);
}

/// The objects an event names that are not here.
pub(crate) fn missing(event: &Event, view: &dyn View) -> Result<Vec<Missing>, ViewError> {
    let (identifiers, wanted) = wants(event);
    let oids: Vec<Oid> = wanted.iter().map(|(_, oid)| *oid).collect();
    let mut is_here = vec![false; oids.len()];
    for identifier in &identifiers {
        let found = view.objects(identifier, &oids)?;
        for (here, found) in is_here.iter_mut().zip(found) {
            *here |= found != Found::Missing;
        }
    }
    let missing = wanted.into_iter().zip(is_here).filter(|(_, here)| !here);
    let missing = missing.map(|((name, oid), _)| Missing { name, oid });
    Ok(missing.collect())
}

/// What an event needs, under which names, and where it may be.
fn wants(event: &Event) -> (Vec<Identifier>, Vec<(String, Oid)>) {
    if let Ok(state) = State::parse(event.clone()) {
        let refs = state
            .refs
            .iter()
            .map(|(name, oid)| (name.to_string(), *oid));
        return (vec![state.identifier.clone()], refs.collect());
    }
    let Ok(request) = PullRequest::parse(event.clone()) else {
        return (Vec::new(), Vec::new());
    };
    let name = RefName::for_nostr_event(event.id.as_bytes()).to_string();
    let targets = request.targets.into_iter().map(|target| target.identifier);
    (targets.collect(), vec![(name, request.tip)])
}

fn facts(event: &Event, deadline: Option<Millis>) -> EventFacts {
    EventFacts {
        id: event.id.to_hex(),
        kind: event.kind.as_u16(),
        author: npub(&event.pubkey),
        created_at: event.created_at.as_secs(),
        deadline: deadline.map(Millis::get),
    }
}

#[cfg(test)]
mod tests {
    use nostr::prelude::{Keys, ToBech32};

    use super::*;

    #[test]
    fn events_and_repositories_are_named_in_every_usual_way() {
        let id = EventId::from_hex(&"ab".repeat(32)).unwrap();
        for text in [id.to_hex(), id.to_bech32().unwrap()] {
            assert!(matches!(parse(&text), Some(Subject::Event(found)) if found == id));
            assert!(matches!(
                parse(&format!("nostr:{text}")),
                Some(Subject::Event(_))
            ));
        }
        let npub = Keys::generate().public_key().to_bech32().unwrap();
        for text in [
            format!("{npub}/a%20b"),
            format!("https://grasp.example.com/{npub}/a%20b.git"),
            format!("nostr://{npub}/a%20b/"),
        ] {
            let Some(Subject::Repository(addr)) = parse(&text) else {
                panic!("{text}")
            };
            assert_eq!(addr.identifier.as_str(), "a b");
        }
        assert!(parse("hello").is_none() && parse("a/b").is_none());
    }
}
