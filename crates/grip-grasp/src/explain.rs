//! Explanations: why an event or a repository is served, held or refused.

mod subject;
mod waiting;

use std::sync::Arc;

use grip_nostr::{Address, Event, EventId, RepoAddr, kinds};
use grip_purgatory::{Millis, Placeholder, Waiting};
use grip_store::EventView as _;
use grip_types::{Identifier, Oid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

pub(crate) use waiting::missing;

use subject::Subject;

use crate::{
    Grasp, LookError, Refusal, RepositorySummary,
    admission::{View, ViewError, admit},
    error::GraspError,
    grasp::Core,
    holding::KeptEvent,
    incoming::in_words,
    node_view::NodeView,
    release::again,
    summary::npub,
};

/// How many missing objects and refusals are listed.
const MAX_LISTED: usize = 50;
/// How many events are named where the beginning of an id is that of several.
const MAX_NAMED: usize = 5;

/// For whom something is explained.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Anybody,
    Operator,
}

/// The answer to "what about this event, or this repository?".
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
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
    /// The clone URLs that are asked for it.
    pub urls: Vec<Url>,
    /// Attempts to find it that did not bring everything.
    pub attempts: Option<u32>,
    /// When it is looked for next (unix milliseconds).
    pub next_attempt: Option<i64>,
    /// It is looked for at this moment.
    pub in_progress: bool,
    /// When it is given up (unix milliseconds).
    pub deadline: Option<i64>,
    /// The identifiers it concerns.
    pub identifiers: Vec<Identifier>,
    pub repository: Option<RepositorySummary>,
    /// Why the repository cannot be served over git, where what is on disk of it is damaged.
    #[serde(default)]
    pub damage: Option<String>,
    /// The held events of a repository's identifier.
    pub held: Vec<EventFacts>,
    /// Those that expired and are still looked for.
    pub wanted: Vec<EventFacts>,
    /// Recent refusals, newest first.
    pub refusals: Vec<Refusal>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "SubjectStatus")]
pub enum Status {
    Served,
    Held,
    /// It expired without its data, which is still looked for.
    Wanted,
    /// Not the event but its ref is here: pushed ahead of it.
    Awaited,
    Refused,
    /// Not served, and kept: a later version replaced it, or it was taken out of service. Shown to the operator.
    Kept,
    #[default]
    Unknown,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct EventFacts {
    pub id: String,
    pub kind: u16,
    pub author: String,
    pub created_at: u64,
    pub deadline: Option<i64>,
}

/// An object that is not here.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Missing {
    /// The ref that names it.
    pub name: String,
    pub oid: Oid,
}

impl Grasp {
    /// Explains an event (hex id or how it begins, `note1…`, `nevent1…`) or a repository (`npub/identifier`, or
    /// its URL).
    pub async fn explain(&self, subject: &str) -> Result<Explanation, LookError> {
        self.explain_to(subject, Reader::Anybody).await
    }

    /// The same for the operator, who also sees events that are kept and shown to nobody.
    pub async fn explain_to_operator(&self, subject: &str) -> Result<Explanation, LookError> {
        self.explain_to(subject, Reader::Operator).await
    }

    async fn explain_to(&self, subject: &str, reader: Reader) -> Result<Explanation, LookError> {
        let mut explanation = Explanation::new(subject);
        let id = match subject::parse(subject) {
            Some(Subject::Event(id)) => id,
            Some(Subject::Beginning(digits)) => {
                match &self.core.events_beginning_with(&digits, reader).await?[..] {
                    [id] => *id,
                    [] => return Ok(explanation),
                    several => {
                        let named = several.iter().map(EventId::to_hex).collect::<Vec<_>>();
                        let text = "several events begin with it; name more of it";
                        explanation.summary = format!("{text}: {}", named.join(", "));
                        return Ok(explanation);
                    }
                }
            }
            Some(Subject::Repository(addr)) => {
                let look = move |core: &Core| {
                    core.explain_repository(&addr, &mut explanation)?;
                    Ok::<_, GraspError>(explanation)
                };
                return Ok(self.core.blocking("grasp.look", look).await??);
            }
            None => {
                let text = "neither an event id nor npub/identifier";
                explanation.summary = text.to_owned();
                return Ok(explanation);
            }
        };
        let look = move |core: &Core| {
            core.explain_event(&id, &mut explanation)?;
            if explanation.status == Status::Unknown && reader == Reader::Operator {
                core.explain_replaced(&id, &mut explanation)?;
            }
            Ok::<_, GraspError>(explanation)
        };
        let mut explanation = self.core.blocking("grasp.look", look).await??;
        if explanation.status == Status::Unknown && reader == Reader::Operator {
            let kept = self.core.holding.find(&id).await;
            if let Some(kept) = kept.map_err(GraspError::from)? {
                self.core.explain_kept(&kept, &mut explanation);
            }
        }
        Ok(explanation)
    }
}

impl Explanation {
    fn new(subject: &str) -> Self {
        Self {
            subject: subject.chars().take(300).collect(),
            summary: "nothing is known of it here".to_owned(),
            ..Self::default()
        }
    }

    fn is(&mut self, status: Status, summary: impl Into<String>) {
        self.status = status;
        self.summary = summary.into();
    }
}

impl Core {
    /// A few of the events that are known here and whose ids begin with these digits.
    async fn events_beginning_with(
        self: &Arc<Self>,
        digits: &str,
        reader: Reader,
    ) -> Result<Vec<EventId>, GraspError> {
        let mut found = if reader == Reader::Operator {
            self.holding.beginning_with(digits, MAX_NAMED).await?
        } else {
            Vec::new()
        };
        let digits = digits.to_owned();
        let look = move |core: &Self| {
            {
                let purgatory = core.purgatory.lock();
                let waiting = purgatory.waiting().map(|waiting| waiting.held().event.id());
                let known = waiting.chain(purgatory.pr_placeholders().copied());
                let named = known.filter(|id| id.to_hex().starts_with(&digits));
                found.extend(named.take(MAX_NAMED));
            }
            found.extend(core.refusals.beginning_with(&digits, MAX_NAMED));
            let events = core.events()?;
            let served = events.beginning_with(&digits, MAX_NAMED);
            found.extend(served.map_err(ViewError::new)?);
            if reader == Reader::Operator {
                let replaced = events.replaced_beginning_with(&digits, MAX_NAMED);
                found.extend(
                    replaced
                        .map_err(ViewError::new)?
                        .iter()
                        .map(|event| event.id),
                );
            }
            found.sort_unstable();
            found.dedup();
            found.truncate(MAX_NAMED);
            Ok::<_, GraspError>(found)
        };
        self.blocking("grasp.look", look).await?
    }

    /// A version that a later one of the same address replaced.
    fn explain_replaced(&self, id: &EventId, to: &mut Explanation) -> Result<(), GraspError> {
        let events = self.events()?;
        let found = events.replaced_beginning_with(&id.to_hex(), 1);
        if let Some(event) = found.map_err(ViewError::new)?.first() {
            let text =
                "a later version replaced it; it is served again if its author deletes that one";
            to.is(Status::Kept, text);
            to.event = Some(facts(event, None));
        }
        Ok(())
    }

    /// An event that was taken out of service.
    fn explain_kept(&self, kept: &KeptEvent, to: &mut Explanation) {
        let KeptEvent {
            event,
            reason,
            repository,
            held_at,
        } = kept;
        let of = repository
            .as_ref()
            .map_or_else(String::new, |addr| format!(", of {addr}"));
        let text = format!("it was taken out of service ({reason}{of}), and is kept for a while");
        to.is(Status::Kept, text);
        let kept_ms = i64::try_from(self.lifecycle.holding.as_millis()).unwrap_or(i64::MAX);
        let until = held_at.saturating_add(kept_ms);
        to.event = Some(facts(event, None));
        to.deadline = Some(until);
    }

    fn explain_event(&self, id: &EventId, to: &mut Explanation) -> Result<(), GraspError> {
        let refusal = self.refusals.of_event(id);
        let waiting = self.waiting_claim(id);
        let placeholder = self.purgatory.lock().find_pr_placeholder(id).cloned();
        let events = self.events()?;
        let view = NodeView::leaving_out(self, &events, *id);
        if let Some(event) = view.served_event(id)? {
            to.is(Status::Served, "it is served");
            to.event = Some(facts(&event, None));
            to.chain = self.chain(&event, &view)?;
        } else if let Some(waiting) = waiting {
            to.chain = self.chain(&waiting.event, &view)?;
            self.explain_waiting(waiting, &view, to)?;
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
        let decision = admit(event, view, &self.policy.load(), again())?;
        Ok(in_words(&decision.steps))
    }

    /// What a contributor repository has; it is nowhere announced.
    fn explain_contributor(&self, addr: &RepoAddr, to: &mut Explanation) -> Result<(), GraspError> {
        to.identifiers = vec![addr.identifier.clone()];
        to.refusals = self.refusals.about(&addr.to_string(), MAX_LISTED);
        if !self.policy.load().contributors {
            to.summary = "contributor repositories are switched off (grasp06_enable)".to_owned();
            return Ok(());
        }
        let refs = self.repositories.refs(addr);
        let refs = refs.map_err(GraspError::repository(addr))?;
        let (mut served, mut pushed) = (0, 0);
        let events = self.events()?;
        let view = NodeView::new(self, &events);
        for id in refs.iter().filter_map(|found| found.name.nostr_event_id()) {
            let id = EventId::from_slice(&id).expect("32 bytes");
            if view.served_kind(&id)?.is_some() {
                served += 1;
            } else {
                pushed += 1;
            }
        }
        let purgatory = self.purgatory.lock();
        let waiting = purgatory.waiting_for(&addr.identifier).filter(|waiting| {
            let held = waiting.held();
            held.author() == addr.owner && held.event.kind() != kinds::STATE
        });
        let waiting = waiting.take(MAX_LISTED).map(Waiting::held);
        to.held = waiting
            .map(|held| facts(&held.event.unpack(), Some(held.deadline())))
            .collect();
        let text = format!(
            "contributor repository with the tips of {served} served pull requests and {pushed} \
             pushed tips whose events have not come; {} of its pull requests wait for their tips",
            to.held.len()
        );
        to.is(
            if refs.is_empty() {
                Status::Unknown
            } else {
                Status::Served
            },
            text,
        );
        Ok(())
    }

    fn explain_repository(&self, addr: &RepoAddr, to: &mut Explanation) -> Result<(), GraspError> {
        if addr.is_contributor() {
            return self.explain_contributor(addr, to);
        }
        to.repository = self.summary(addr)?;
        to.identifiers = vec![addr.identifier.clone()];
        let announcement = {
            let purgatory = self.purgatory.lock();
            let listed = |is_held: bool| {
                let waiting = purgatory.waiting_for(&addr.identifier);
                let waiting = waiting.filter(|it| it.is_held() == is_held);
                let held = waiting.take(MAX_LISTED).map(Waiting::held);
                held.map(|held| facts(&held.event.unpack(), Some(held.deadline())))
                    .collect()
            };
            (to.held, to.wanted) = (listed(true), listed(false));
            let entry = purgatory.find_announcement(addr);
            entry.map(|entry| (entry.held.event.unpack(), entry.held.deadline()))
        };
        let events = self.events()?;
        let view = NodeView::new(self, &events);
        if let Some(event) = view.latest(&Address::of_announcement(addr))? {
            to.is(Status::Served, "its announcement is served");
            to.event = Some(facts(&event, None));
        } else if let Some((event, deadline)) = announcement {
            let text = if to.repository.is_some() {
                "its announcement is held until the first push"
            } else {
                "its announcement expired without a push; a new state brings it back"
            };
            to.is(Status::Held, text);
            let view = NodeView::leaving_out(self, &events, event.id);
            to.chain = self.chain(&event, &view)?;
            to.event = Some(facts(&event, Some(deadline)));
            to.deadline = Some(deadline.get());
        }
        to.damage = self.damage.of(addr);
        if let Some(damage) = &to.damage {
            to.summary = format!("{}; its git data is not: {damage}", to.summary);
        }
        to.refusals = self.refusals.about(&addr.to_string(), MAX_LISTED);
        let of_identifier = self.refusals.about(addr.identifier.as_str(), MAX_LISTED);
        to.refusals.extend(of_identifier);
        if to.status == Status::Unknown
            && let Some(refusal) = to.refusals.first()
        {
            let text = format!("not here; recently refused: {}", refusal.reason);
            to.is(Status::Refused, text);
        }
        Ok(())
    }
}

fn explain_placeholder(placeholder: &Placeholder, to: &mut Explanation) {
    let refs = placeholder.refs.iter();
    let pushed_to: Vec<String> = refs
        .map(|(addr, pushed)| format!("{addr} at {}", pushed.commit.short()))
        .collect();
    let text = format!(
        "its ref was pushed to {}; the event has not come",
        pushed_to.join(", ")
    );
    to.is(Status::Awaited, text);
    let deadline = placeholder
        .refs
        .values()
        .map(|pushed| pushed.expires_at)
        .min();
    to.deadline = deadline.map(Millis::get);
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
