//! Judgement of a push by what is held and served at this moment.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use grip_nostr::{EventId, MaintainerSet, PublicKey, State};
use grip_types::Oid;

use super::{Push, land::Denied, prolong::claims};
use crate::{
    admission::{Announcements, Denial, View, ViewError, why_not},
    error::GraspError,
    grasp::Core,
    node_view::NodeView,
    push_rules::{
        Authorised, Candidates, Known, Refs, authorise, authorise_contributor, known_events,
    },
    release::served_states_of,
    summary::npub,
};

/// An allowed push.
pub(super) struct Judged {
    pub(super) authorised: Authorised,
    /// The state it rests on, if it has branches or tags.
    pub(super) state: Option<State>,
    /// The refs it was judged against.
    pub(super) current: Refs,
    /// It is a push to a contributor repository.
    is_contributor: bool,
    /// Authors of pull requests whose tips are pushed, but maintainers.
    strangers: BTreeSet<PublicKey>,
}

/// The tips that a pack is taken for. Nothing beside these and what they need is kept of it: to
/// carry more is to use a victim's repository as a store.
#[derive(Clone, Debug, Default)]
pub(super) struct WantedTips {
    /// Named by a state or a pull request: for the store of the identifier.
    pub(super) signed: Vec<Oid>,
    /// Named by no event yet: for the receiving repository alone.
    pub(super) staged: BTreeMap<EventId, Oid>,
    /// The events that wait for it.
    pub(super) claims: Vec<EventId>,
    /// A branch or a tag moves, and is not only named.
    pub(super) moves_state_refs: bool,
    /// It has tips of pull requests, or of events that have not come, by others than maintainers.
    pub(super) is_contribution: bool,
    /// Those of them who are known.
    pub(super) authors: BTreeSet<PublicKey>,
}

impl Judged {
    fn wanted(&self) -> WantedTips {
        let edits = self.authorised.edits.iter();
        let mut edits = edits.filter(|edit| edit.name.is_state_ref()).peekable();
        let requested = self.authorised.pull_requests.iter().map(|(_, tip)| *tip);
        let named = self.state.iter().flat_map(State::oids);
        // A ref that is there already only gets more time.
        let placeholders = self.authorised.placeholders.iter();
        let staged = placeholders.filter(|(id, tip)| !self.current.has_tip(id, tip));
        if self.is_contributor {
            // Whoever signs it, it stays where it was pushed to.
            let requests = self.authorised.pull_requests.iter();
            let missing = requests.filter(|(id, tip)| !self.current.has_tip(id, tip));
            let staged: BTreeMap<EventId, Oid> = staged.chain(missing).copied().collect();
            return WantedTips {
                is_contribution: !staged.is_empty(),
                staged,
                ..WantedTips::default()
            };
        }
        let staged: BTreeMap<EventId, Oid> = staged.copied().collect();
        WantedTips {
            is_contribution: !staged.is_empty() || !self.strangers.is_empty(),
            authors: self.strangers.clone(),
            moves_state_refs: edits.peek().is_some(),
            signed: edits
                .filter_map(|edit| edit.new)
                .chain(requested)
                .chain(named)
                .collect(),
            staged,
            claims: Vec::new(),
        }
    }
}

impl Core {
    /// Judges a push by its commands, before anything of its pack is taken, and sees to it that
    /// what it rests on does not expire under it. Returns the tips that its pack is taken for.
    pub(super) async fn allow(self: &Arc<Self>, push: &Arc<Push>) -> Result<WantedTips, Denied> {
        let judge = {
            let push = Arc::clone(push);
            // What is released leaves what is held after it is served: a snapshot of served events
            // from before that, and a look at what is held from after it, have neither. A second
            // snapshot has it.
            move |core: &Self| core.judge_push(&push).or_else(|_| core.judge_push(&push))
        };
        let judged = self.blocking("grasp.judge", judge).await??;
        let claims = claims(&judged);
        self.begin_claims(push, &claims).await?;
        Ok(WantedTips {
            claims,
            ..judged.wanted()
        })
    }

    /// Judges a push against what is here now. Blocks.
    pub(super) fn judge_push(&self, push: &Push) -> Result<Judged, Denied> {
        if push.addr.is_contributor() {
            return self.judge_contribution(push);
        }
        if self.hosted.status(&push.addr).is_none() {
            return Err(Denied::NotHosted);
        }
        if self.withdrawals.until(&push.addr).is_some() {
            return Err(Denied::Withdrawn);
        }
        if self.policy.load().archive.read_only {
            return Err(Denied::ReadOnly);
        }
        let events = self.events()?;
        let view = NodeView::new(self, &events);
        let candidates = self.candidates(push, &view)?;
        let policy = self.policy.load();
        let known = known_events(&push.commands, &push.addr, &view, &policy)?;
        let current = self.refs(&push.addr)?;
        let authorised = match authorise(&push.commands, &candidates, &current, &known) {
            Ok(authorised) => authorised,
            Err(mut refusal) => {
                if let Some(text) = self.denial(push, &current, &known, &view)? {
                    refusal.because(&text);
                }
                return Err(refusal.into());
            }
        };
        let by = |state: &&State| Some(state.event.id) == authorised.by;
        let state = candidates.iter().find(by).cloned();
        let strangers = self.strangers(push, &authorised, &current, &view)?;
        Ok(Judged {
            authorised,
            state,
            current,
            is_contributor: false,
            strangers,
        })
    }

    /// Who signed the pull requests whose tips a push brings, without those who maintain the repository.
    fn strangers(
        &self,
        push: &Push,
        authorised: &Authorised,
        current: &Refs,
        view: &dyn View,
    ) -> Result<BTreeSet<PublicKey>, ViewError> {
        let requests = authorised.pull_requests.iter();
        let mut fresh = requests
            .filter(|(id, tip)| !current.has_tip(id, tip))
            .peekable();
        if fresh.peek().is_none() {
            return Ok(BTreeSet::new());
        }
        let addr = &push.addr;
        let announcements = Announcements::load_of(addr, view, &self.policy.load())?;
        let maintainers = announcements.set_of(&addr.owner);
        let mut strangers = BTreeSet::new();
        for (id, _) in fresh {
            let event = match view.served_event(id)? {
                Some(event) => Some(event),
                None => view.held_event(id)?,
            };
            let author = event.map(|event| event.pubkey);
            strangers.extend(author.filter(|author| !maintainers.contains(author)));
        }
        Ok(strangers)
    }

    /// The same for a push to a contributor repository. Blocks.
    fn judge_contribution(&self, push: &Push) -> Result<Judged, Denied> {
        let policy = self.policy.load();
        if !policy.contributors {
            return Err(Denied::NotHosted);
        }
        if policy.bans(&push.addr) {
            return Err(Denied::Banned);
        }
        let events = self.events()?;
        let view = NodeView::new(self, &events);
        let known = known_events(&push.commands, &push.addr, &view, &policy)?;
        let current = self.refs(&push.addr)?;
        Ok(Judged {
            authorised: authorise_contributor(&push.commands, &current, &known)?,
            state: None,
            current,
            is_contributor: true,
            strangers: BTreeSet::new(),
        })
    }

    fn candidates(&self, push: &Push, view: &dyn View) -> Result<Candidates, GraspError> {
        if !push.moves_state_refs() {
            return Ok(Candidates::default());
        }
        let announcements = Announcements::load_of(&push.addr, view, &self.policy.load())?;
        self.candidates_by(&announcements.set_of(&push.addr.owner), push, view)
    }

    /// Why the maintainer rule leaves a push without a state to rest on: nobody maintains the
    /// repository (G01-73), or only the legacy rule would have had one (G01-78).
    fn denial(
        &self,
        push: &Push,
        current: &Refs,
        known: &BTreeMap<EventId, Known>,
        view: &dyn View,
    ) -> Result<Option<String>, GraspError> {
        let Push { addr, commands, .. } = push;
        if !push.moves_state_refs() {
            return Ok(None);
        }
        let announcements = Announcements::load_of(addr, view, &self.policy.load())?;
        let set = announcements.set_of(&addr.owner);
        let Some(legacy) = announcements.legacy_set_of(&addr.owner) else {
            return Ok(None);
        };
        let candidates = self.candidates_by(&legacy, push, view)?;
        let allowed = authorise(commands, &candidates, current, known).ok();
        let by = allowed.and_then(|allowed| allowed.by);
        let state = candidates.iter().find(|it| Some(it.event.id) == by);
        let Some(author) = state.map(|state| state.event.pubkey) else {
            let why = set.why_empty();
            return Ok(why.map(|why| format!("nobody may move its refs: {why}")));
        };
        let why = why_not(&set, &author);
        let text = format!("a state of {} allows it, but {why}", npub(&author));
        let repository = addr.clone();
        self.note_denials("refused a push", &author, &[Denial { repository, why }]);
        Ok(Some(text))
    }

    fn candidates_by(
        &self,
        set: &MaintainerSet,
        push: &Push,
        view: &dyn View,
    ) -> Result<Candidates, GraspError> {
        let identifier = &push.addr.identifier;
        // What strangers have under the same name is not even read.
        let members = set.iter().copied().collect();
        let served = served_states_of(identifier, &members, view)?;
        let held: Vec<_> = {
            let purgatory = self.purgatory.lock();
            let entries = purgatory.find_state(identifier).iter();
            let by_members = entries.filter(|entry| set.contains(&entry.held.author()));
            by_members.map(|entry| entry.held.event.clone()).collect()
        };
        let held = held
            .iter()
            .filter_map(|event| State::parse(event.unpack()).ok());
        Ok(Candidates::new(set, served, held.collect()))
    }
}
