//! The end of a push whose pack is whole, in the turn of its identifier, and what the pusher reads.

use std::{collections::HashMap, sync::Arc};

use grip_git::{
    DiskUser, ObjectKind, Quarantine, ReceiveError, Sender, StageError, StagedTip, StagingFull,
};
use grip_nostr::{EventId, RepoAddr, State};
use grip_purgatory::Purgatory;
use grip_tasks::fault;
use grip_types::{Charge, ErrorChain, Oid, Owner, RefEdit, RefName};

use super::{
    Push,
    judge::{Judged, WantedTips},
    request_bytes::{RequestsFull, TakenBytes},
};
use crate::{
    admission::ViewError,
    error::GraspError,
    grasp::{Core, Turns, now},
    push_rules::{Alignment, PushRefusal, Refs, alignment},
    release::{DataSource, Released},
    repositories::ChangedBy,
};

/// Why nothing of a push was carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum Denied {
    #[error("busy, try again: too many pushes to this repository at once")]
    Busy,
    #[error(
        "busy, try again: others push to this repository, and this upload was the slowest or one \
         of many from your network"
    )]
    Displaced,
    #[error(
        "{named} refs of events (refs/nostr/…) in one push; at most {most}: push them in parts"
    )]
    TooManyEvents { named: usize, most: usize },
    #[error("this repository is not hosted here any more")]
    NotHosted,
    #[error("the operator of this server takes nothing from this author or for this repository")]
    Banned,
    #[error("read-only: its owner's newest announcement no longer lists this server")]
    Withdrawn,
    #[error(
        "read-only: this server is an archive that takes no pushes; push to a server that the \
         repository's announcement names, and it is fetched from there"
    )]
    ReadOnly,
    #[error(transparent)]
    Refused(#[from] PushRefusal),
    /// A tip that is not there, or not what its ref needs.
    #[error("{0}")]
    Tip(String),
    #[error(transparent)]
    Pack(ReceiveError),
    #[error(transparent)]
    StagingFull(#[from] StagingFull),
    #[error(transparent)]
    RequestsFull(#[from] RequestsFull),
    #[error(transparent)]
    Failed(#[from] GraspError),
}

impl From<ViewError> for Denied {
    fn from(error: ViewError) -> Self {
        Self::Failed(error.into())
    }
}

impl Denied {
    /// What the upload costs its sender.
    pub(super) fn charge(&self) -> Charge {
        match self {
            Self::Pack(error) if error.is_node_fault() => Charge::NotDone,
            // Others may have filled these, and nobody pays for others.
            Self::Pack(ReceiveError::MemoryFull(_) | ReceiveError::DiskFull(_)) => Charge::NotDone,
            Self::StagingFull(full) if !full.budget.is_of_network() => Charge::NotDone,
            Self::RequestsFull(full) if !full.is_of_network() => Charge::NotDone,
            Self::Busy | Self::Displaced | Self::Failed(_) => Charge::NotDone,
            // An order of the operator or of the owner, which came meanwhile.
            Self::NotHosted | Self::Banned | Self::Withdrawn | Self::ReadOnly => Charge::NotDone,
            Self::TooManyEvents { .. }
            | Self::Refused(_)
            | Self::Tip(_)
            | Self::Pack(_)
            | Self::StagingFull(_)
            | Self::RequestsFull(_) => Charge::Refused,
        }
    }

    /// One line for the person who pushed, and one for each ref where they differ.
    pub(super) fn reason(&self) -> (String, Vec<String>) {
        let (mut reason, mut refs) = (ErrorChain(self).to_string(), Vec::new());
        match self {
            Self::Refused(refusal) => {
                let lines = refusal.refs.iter();
                refs.extend(lines.map(|of| format!("{}: {}", of.name, of.reason)));
            }
            Self::Pack(ReceiveError::MemoryFull(_)) => {}
            Self::Pack(ReceiveError::DiskFull(full)) if full.disk_user == DiskUser::Stranger => {}
            Self::Pack(error) if error.is_ours() => {
                tracing::error!(
                    error = error as &dyn std::error::Error,
                    "failed to store pack"
                );
            }
            Self::Failed(error) if error.is_overload() => reason = format!("busy: {error}"),
            Self::Failed(error) => error.log("failed to carry out a push"),
            _ => {}
        }
        (reason, refs)
    }
}

/// What has become of a push.
pub(super) struct Landed {
    /// For the person who pushed.
    pub(super) messages: Vec<String>,
    /// It was this push that moved a branch or a tag.
    pub(super) moved_state_refs: bool,
}

/// What an allowed push comes to.
struct Landing {
    /// For the store of the identifier.
    signed: Quarantine,
    /// For the receiving repository alone.
    staged: Quarantine,
    edits: Vec<RefEdit>,
    head: Option<RefName>,
    placeholders: Vec<(EventId, Oid)>,
    /// Those that rest on `staged`.
    tips: Vec<(EventId, Oid)>,
    /// Those of them whose events came since the push was judged first.
    named: Vec<(EventId, Oid)>,
    state: Option<State>,
    /// Whose share `staged` is.
    sender: Sender,
    /// What it took of the budgets of strangers, and how much of that `signed` is.
    taken: Option<TakenBytes>,
    signed_bytes: u64,
}

impl Core {
    /// Cuts the pack, judges the push again, makes its objects and refs part of the repository and
    /// releases what waited for them.
    pub(super) async fn land(
        self: &Arc<Self>,
        push: &Arc<Push>,
        quarantine: Quarantine,
        wanted: WantedTips,
    ) -> Result<Landed, Denied> {
        let identifier = &push.addr.identifier;
        let staged: Vec<Oid> = wanted.staged.values().copied().collect();
        // Before the turn is taken: to walk a large pack takes a while.
        let split = quarantine.split(&wanted.signed, &staged).await;
        let (signed, staged) = split.map_err(Denied::Pack)?;
        let is_owners = wanted.moves_state_refs;
        let mut turns = self.turn_of(push, is_owners).await?;
        let plan = {
            let push = Arc::clone(push);
            move |core: &Self| core.plan_landing(&push, signed, staged, &wanted)
        };
        let landing = self.blocking("grasp.judge", plan).await??;
        // Noted before the ref appears: a ref that nothing notes would stay for ever.
        let noted = self
            .note_placeholders(push, landing.placeholders.clone())
            .await?;
        let state = landing.state.as_ref().map(|state| state.event.id);
        let waiting = landing.placeholders.len();
        let named = landing.named.clone();
        let mut edits = landing.edits.iter();
        let moved_state_refs = edits.any(|edit| edit.name.is_state_ref());
        let commit = {
            let push = Arc::clone(push);
            move |core: &Self| core.commit_landing(&push, landing)
        };
        if let Err(denied) = self.blocking("git.land", commit).await? {
            self.forget_placeholders(push, &noted).await;
            return Err(denied);
        }
        fault::point("push.refs_updated");
        if !named.is_empty() {
            // To walk them takes a while, in which others have their turn.
            drop(turns);
            let prepared = if push.addr.is_contributor() {
                self.prepare_mirrors(&named).await
            } else {
                self.prepare_tips(&push.addr, &named).await
            };
            turns = self.turn_of(push, is_owners).await?;
            for tip in prepared {
                // The refs have moved: the release below tries it again.
                if let Err(error) = self.promote_prepared(&push.addr, tip).await {
                    error.log("failed to promote a staged tip");
                }
            }
        }
        let released = self.release(identifier, DataSource::Push).await;
        released.log(identifier);
        self.settle_released(identifier, &released).await;
        drop(turns);
        if !push.addr.is_contributor() {
            self.maintenance.add(identifier);
        }
        Ok(Landed {
            messages: self.messages(push, state, waiting, &released),
            moved_state_refs,
        })
    }

    /// Waits for the turn of its identifier: a push that moves what a signed state says in the line of
    /// the owner, any other in that of the network it comes from.
    async fn turn_of(&self, push: &Push, is_owners: bool) -> Result<Turns, GraspError> {
        let RepoAddr {
            owner, identifier, ..
        } = &push.addr;
        let line = match push.network.filter(|_| !is_owners) {
            Some(network) => Owner::of_network(network),
            None => self.line_of(*owner, push.network, identifier),
        };
        let identifiers = vec![identifier.clone()];
        Ok(self.lanes.enter_all(identifiers, |_| line).await?)
    }

    /// Judges the push against what is here now and against its objects. Blocks.
    fn plan_landing(
        &self,
        push: &Push,
        signed: Quarantine,
        staged: Quarantine,
        wanted: &WantedTips,
    ) -> Result<Landing, Denied> {
        let Judged {
            authorised,
            state,
            current,
            ..
        } = self.judge_push(push)?;
        let is_staged = |tip: &(EventId, Oid)| wanted.staged.get(&tip.0) == Some(&tip.1);
        let is_there = |(id, tip): &(EventId, Oid)| current.has_tip(id, tip);
        let mut placeholders = authorised.placeholders.iter();
        if !placeholders.all(|tip| is_staged(tip) || is_there(tip)) {
            let text = "the pull request event was dropped while the pack was sent; push again";
            return Err(Denied::Tip(text.to_owned()));
        }
        let named = authorised.pull_requests.iter().copied().filter(is_staged);
        let named: Vec<_> = named.collect();
        let tips = authorised.placeholders.iter().copied().filter(is_staged);
        let tips = tips.chain(named.iter().copied()).collect();
        let objects = Objects::find(push, state.as_ref(), &current, [&signed, &staged])?;
        objects.check_tips()?;
        let sender = push.sender(wanted);
        if !staged.is_empty() {
            let bytes = staged.bytes().map_err(ViewError::new)?;
            let repositories = &self.repositories;
            repositories.check_staging(&push.addr, &sender, bytes, wanted.staged.len())?;
        }
        let (mut taken, mut signed_bytes) = (None, 0);
        if wanted.is_contribution {
            let bytes = |pack: &Quarantine| {
                if pack.is_empty() {
                    Ok(0)
                } else {
                    pack.bytes().map_err(ViewError::new)
                }
            };
            // Beside a branch that moves, what is for the store is what its state names.
            if !wanted.moves_state_refs {
                signed_bytes = bytes(&signed)?;
            }
            taken = self.contribute(push, wanted, signed_bytes + bytes(&staged)?)?;
        }
        let (mut edits, mut head) = (authorised.edits, authorised.head);
        if let Some(state) = &state
            && objects.complete(state)
        {
            // All at once: a reader never sees half of what the state says.
            let Alignment {
                edits: all,
                head: to,
            } = alignment(state, &current);
            edits.retain(|edit| !edit.name.is_state_ref());
            edits.extend(all);
            head = to;
        }
        Ok(Landing {
            signed,
            staged,
            edits,
            head,
            placeholders: authorised.placeholders,
            tips,
            named,
            state,
            sender,
            taken,
            signed_bytes,
        })
    }

    fn commit_landing(&self, push: &Push, landing: Landing) -> Result<(), Denied> {
        let mut taken = landing.taken;
        let mut keep = |bytes| {
            if let Some(taken) = &mut taken {
                taken.keep(bytes);
            }
        };
        self.commit.objects(landing.signed)?;
        // They are in the store, whatever comes of the refs.
        keep(landing.signed_bytes);
        let tips = landing.tips.iter();
        let tips = tips.map(|(id, tip)| (RefName::for_nostr_event(id.as_bytes()), *tip));
        let tips = tips.collect();
        let staged = landing.staged.stage(&push.addr, tips, landing.sender);
        staged.map_err(|error| match error {
            StageError::Full(full) => Denied::StagingFull(full),
            other => Denied::Failed(GraspError::staged(&push.addr)(other)),
        })?;
        let by = ChangedBy::Push(landing.state.as_ref().map(|state| &state.event));
        let (edits, head) = (&landing.edits, landing.head.as_ref());
        let changed = self.change_refs(&push.addr, edits, head, by);
        if changed.is_err()
            && let Err(error) = self.repositories.reclaim_staged(&push.addr)
        {
            GraspError::repository(&push.addr)(error).log("failed to remove a staged upload");
        }
        changed?;
        keep(u64::MAX);
        Ok(())
    }

    /// Those of the tips that are staged in `addr`, ready to be promoted. Needs no turn.
    async fn prepare_tips(&self, addr: &RepoAddr, tips: &[(EventId, Oid)]) -> Vec<StagedTip> {
        let mut prepared = Vec::new();
        for (event, tip) in tips {
            match self.prepare_tip(addr, event, *tip).await {
                Ok(tip) => prepared.extend(tip),
                Err(error) => error.log("failed to read a staged tip"),
            }
        }
        prepared
    }

    /// What is staged in `addr` for the tip of an event, if anything is.
    pub(crate) async fn prepare_tip(
        &self,
        addr: &RepoAddr,
        event: &EventId,
        tip: Oid,
    ) -> Result<Option<StagedTip>, GraspError> {
        let name = RefName::for_nostr_event(event.as_bytes());
        let prepared = self.repositories.prepare_staged(addr, &name, &tip).await;
        prepared.map_err(GraspError::staged(addr))
    }

    /// Makes a tip that was staged in `addr` part of the store.
    pub(crate) async fn promote_prepared(
        self: &Arc<Self>,
        addr: &RepoAddr,
        tip: StagedTip,
    ) -> Result<(), GraspError> {
        let promoted = self.blocking("git.land", move |_| tip.promote()).await?;
        promoted.map_err(GraspError::staged(addr))?;
        tracing::debug!(repository = %addr, "promoted a staged upload");
        Ok(())
    }

    /// Notes what waits for its event; says which of it was not noted before.
    async fn note_placeholders(
        &self,
        push: &Push,
        placeholders: Vec<(EventId, Oid)>,
    ) -> Result<Vec<EventId>, GraspError> {
        // Those that were noted before this push stay noted if it fails: their refs are there.
        let forget = |purgatory: &mut Purgatory, fresh: &[EventId]| {
            for id in fresh {
                drop(purgatory.remove_pr_placeholder_in(id, &push.addr));
            }
        };
        let (fresh, journalled) = self
            .try_held(|purgatory| {
                let (mut fresh, mut changes) = (Vec::new(), Vec::new());
                for (id, tip) in placeholders {
                    let known = purgatory.find_pr_placeholder(&id);
                    if known.is_none_or(|known| !known.refs.contains_key(&push.addr)) {
                        fresh.push(id);
                    }
                    let addr = push.addr.clone();
                    match purgatory.add_pr_placeholder(id, tip, addr, push.network, now()) {
                        Ok(more) => changes.extend(more),
                        Err(full) => {
                            forget(purgatory, &fresh);
                            return Err(full);
                        }
                    }
                }
                Ok((fresh, changes))
            })
            .await?;
        if let Err(error) = journalled {
            forget(&mut self.purgatory.lock(), &fresh);
            return Err(error.into());
        }
        Ok(fresh)
    }

    /// Forgets what was noted for refs that could not be set: it is part of its sender's share.
    async fn forget_placeholders(&self, push: &Push, noted: &[EventId]) {
        let forgotten = self.held(|purgatory| {
            let changes = noted
                .iter()
                .flat_map(|id| purgatory.remove_pr_placeholder_in(id, &push.addr));
            ((), changes.collect())
        });
        if let Err(error) = forgotten.await {
            error.log("failed to forget what a failed push would have waited for");
        }
    }

    fn messages(
        &self,
        push: &Push,
        state: Option<EventId>,
        placeholders: usize,
        released: &Released,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        if released.announcements_released > 0 {
            let to = match self.policy.load().members {
                Some(_) => "all members",
                None => "everyone",
            };
            lines.push(format!("the repository is announced to {to} now"));
        }
        if let Some(state) = state {
            let short = &state.to_hex()[..8];
            let waits = self.purgatory.lock().find_event(&state).is_some();
            lines.push(if waits {
                format!("state {short} waits for the rest of its objects")
            } else {
                format!("state {short} is served")
            });
        }
        if released.prs_released > 0 {
            lines.push(format!(
                "{} pull request(s) served now",
                released.prs_released
            ));
        }
        if placeholders > 0 {
            let minutes = self.bounds.placeholder_lifetime.as_secs() / 60;
            lines.push(format!(
                "stored for {minutes} minutes; publish the pull request event before then"
            ));
        }
        let url = self.policy.load().service.http_url();
        lines.push(format!("{url}/{}", push.addr.path()));
        lines
    }
}

/// The objects that a push sets refs to and its state names, looked up at once.
struct Objects<'a> {
    /// What a ref is at already was looked at when it was set; a staged tip is in no store.
    tips: Vec<(&'a RefName, Oid)>,
    /// In the pack for the store, or in the store.
    signed: HashMap<Oid, ObjectKind>,
    /// In the pack for the receiving repository.
    staged: HashMap<Oid, ObjectKind>,
}

impl<'a> Objects<'a> {
    fn find(
        push: &'a Push,
        state: Option<&State>,
        current: &Refs,
        [signed, staged]: [&Quarantine; 2],
    ) -> Result<Self, ViewError> {
        let commands = push.commands.iter();
        let tips: Vec<(&RefName, Oid)> = commands
            .filter_map(|command| Some((&command.name, command.new?)))
            .filter(|(name, oid)| current.refs.get(*name) != Some(oid))
            .collect();
        let mut oids: Vec<Oid> = tips.iter().map(|(_, oid)| *oid).collect();
        let kinds = |pack: &Quarantine, oids: &[Oid]| {
            let kinds = pack.kinds(oids).map_err(ViewError::new)?;
            let found = oids.iter().zip(kinds);
            Ok::<_, ViewError>(
                found
                    .filter_map(|(oid, kind)| Some((*oid, kind?)))
                    .collect(),
            )
        };
        let staged = if staged.is_empty() {
            HashMap::new()
        } else {
            kinds(staged, &oids)?
        };
        oids.extend(state.iter().flat_map(|state| state.refs.values()));
        let signed = kinds(signed, &oids)?;
        Ok(Self {
            tips,
            signed,
            staged,
        })
    }

    /// Every new tip must be there, and a commit where git or GRASP wants one.
    fn check_tips(&self) -> Result<(), Denied> {
        for (name, oid) in &self.tips {
            let needs_commit = name.is_head() || name.is_under_nostr();
            match self.signed.get(oid).or_else(|| self.staged.get(oid)) {
                None => {
                    let text =
                        format!("{} for {name} is neither in the pack nor here", oid.short());
                    return Err(Denied::Tip(text));
                }
                Some(kind) if needs_commit && *kind != ObjectKind::Commit => {
                    let text = format!("{name} needs a commit, and {} is none", oid.short());
                    return Err(Denied::Tip(text));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Says whether with this push everything is in the store that `state` names.
    fn complete(&self, state: &State) -> bool {
        state.refs.iter().all(|(name, oid)| {
            let kind = self.signed.get(oid);
            kind.is_some_and(|kind| !name.is_head() || *kind == ObjectKind::Commit)
        })
    }
}
