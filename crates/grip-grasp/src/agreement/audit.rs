//! The comparison of what has to be with what is.

use std::{collections::BTreeSet, ops::Bound, sync::Arc};

use grip_git::RepoError;
use grip_nostr::{EventId, PullRequest, RepoAddr};
use grip_types::{ErrorChain, Identifier, Oid, RefName};
use parking_lot::Mutex;

use super::{Disagreement, Expected, Fault, Scope, expected::ExpectedRepository};
use crate::{
    Grasp, LookError, Policy,
    admission::{View as _, ViewError, contributor_repositories},
    error::GraspError,
    grasp::Core,
    node_view::NodeView,
    push_rules::Refs,
    repositories::refs_of,
};

/// Identifiers audited in one round.
const PER_ROUND: usize = 16;
/// Missing objects that are named for one repository.
const MAX_MISSING: usize = 8;

impl Grasp {
    /// Compares what is served and held of one identifier with what is on disk, in its turn: at
    /// rest there is no disagreement.
    pub async fn audit(&self, identifier: &Identifier) -> Result<Vec<Disagreement>, LookError> {
        Ok(self.core.audit(identifier).await?)
    }

    /// Every identifier that something is hosted or held for.
    pub fn identifiers(&self) -> BTreeSet<Identifier> {
        self.core.identifiers()
    }
}

impl Core {
    pub(crate) fn identifiers(&self) -> BTreeSet<Identifier> {
        let hosted = self
            .hosted
            .all()
            .into_iter()
            .map(|(addr, _)| addr.identifier);
        let mut all: BTreeSet<Identifier> = hosted.collect();
        all.extend(self.purgatory.lock().identifiers().cloned());
        all.extend(self.repositories.contributed());
        all
    }

    /// Says in which points relay and git do not agree. The caller has the turn. Blocks.
    pub(crate) fn compare(
        &self,
        identifier: &Identifier,
        scope: Scope,
    ) -> Result<Vec<Disagreement>, GraspError> {
        let policy = self.policy.load();
        let events = self.store.read().map_err(ViewError::new)?;
        let view = NodeView::new(self, &events);
        let mut expected = Expected::load(identifier, scope, &view, &policy)?;
        let mut findings = Findings {
            identifier,
            list: Vec::new(),
        };
        let unusable = match self.repositories.damaged_packs(identifier) {
            Ok(packs) => {
                let first = packs.first();
                first.map(|pack| format!("{}: {}", pack.name, pack.reason))
            }
            Err(error) => Some(ErrorChain(&error).to_string()),
        };
        let unusable = unusable.or_else(|| {
            let added = self.expect_tips(&mut expected, identifier, &events, &view, &policy);
            added.err().map(|error| ErrorChain(&error).to_string())
        });
        if let Some(reason) = unusable {
            // Without its objects nothing can be said about the refs.
            for addr in expected.repositories.keys() {
                let reason = reason.clone();
                findings.add(addr, Fault::Damaged { reason });
            }
            return Ok(findings.list);
        }
        for owner in self.hosted.owners(identifier).into_keys() {
            let addr = RepoAddr::new(owner, identifier.clone());
            let is_leaving = self.withdrawals.until(&addr).is_some();
            let is_expected = expected.repositories.contains_key(&addr);
            if expected.is_about(&owner) && !is_expected && !is_leaving {
                findings.add(&addr, Fault::Unannounced);
            }
        }
        for (addr, repository) in &expected.repositories {
            self.compare_repository(addr, repository, &view, &mut findings)?;
        }
        if scope == Scope::All {
            for addr in self.repositories.contributors(identifier) {
                self.compare_contributor(&addr, &policy, &view, &mut findings)?;
            }
        }
        self.compare_waiting(&expected, &mut findings);
        Ok(findings.list)
    }

    /// A contributor repository has `refs/nostr/<id>` for pull requests, served or held, that name it
    /// and this tip, and for pushed refs that are noted; and it has their objects.
    fn compare_contributor(
        &self,
        addr: &RepoAddr,
        policy: &Policy,
        view: &NodeView<'_>,
        findings: &mut Findings<'_>,
    ) -> Result<(), GraspError> {
        let current = match self.repositories.refs(addr) {
            Ok(refs) => refs_of(&refs),
            Err(error) => {
                let reason = ErrorChain(&error).to_string();
                findings.add(addr, Fault::Damaged { reason });
                return Ok(());
            }
        };
        for (name, oid) in current.refs {
            if !self.repositories.is_staged(addr, &name, &oid) {
                let reason = format!("{name} rests on nothing that is here");
                findings.add(addr, Fault::Damaged { reason });
                continue;
            }
            let event = name.nostr_event_id();
            let event = event.map(|id| EventId::from_slice(&id).expect("32 bytes"));
            if event.is_some_and(|event| self.is_held_for(&event, addr)) {
                continue;
            }
            let served = match event {
                Some(event) => view.served_event(&event)?,
                None => None,
            };
            let Some(served) = served else {
                let fault = match event {
                    Some(event) => Fault::OrphanRef { event },
                    None => foreign(name, oid),
                };
                findings.add(addr, fault);
                continue;
            };
            let request = PullRequest::parse(served);
            let belongs = request.is_ok_and(|request| {
                request.tip == oid && contributor_repositories(&request, policy).contains(addr)
            });
            if !belongs {
                findings.add(addr, foreign(name, oid));
            }
        }
        Ok(())
    }

    fn compare_repository(
        &self,
        addr: &RepoAddr,
        expected: &ExpectedRepository,
        view: &NodeView<'_>,
        findings: &mut Findings<'_>,
    ) -> Result<(), GraspError> {
        let status = self.hosted.status(addr);
        let unusable = match self.repositories.refs(addr) {
            Ok(_) if self.repositories.exists(addr) => None,
            Ok(_) | Err(RepoError::NotFound(_)) => Some(Fault::Absent),
            Err(error) => Some(Fault::Damaged {
                reason: ErrorChain(&error).to_string(),
            }),
        };
        let unusable = unusable.or(status.is_none().then_some(Fault::Absent));
        if let Some(fault) = unusable {
            findings.add(addr, fault);
            return Ok(());
        }
        if status != Some(expected.status) {
            let says = expected.status;
            findings.add(addr, Fault::Status { says });
        }
        let current = self.refs(addr)?;
        if expected.is_unproven() {
            findings.add(addr, Fault::Unproven);
            return Ok(());
        }
        if !self.has_proof(addr, expected, findings) {
            return Ok(());
        }
        let alignment = expected.settlement(&current);
        for edit in alignment.edits {
            let (name, is, says) = (edit.name, edit.old, edit.new);
            findings.add(addr, Fault::Ref { name, is, says });
        }
        if let Some(says) = alignment.head {
            let is = current.head.clone();
            findings.add(addr, Fault::Head { is, says });
        }
        self.compare_tips(addr, expected, &current, view, findings)
    }

    /// Says whether the objects of the effective state are here.
    fn has_proof(
        &self,
        addr: &RepoAddr,
        expected: &ExpectedRepository,
        findings: &mut Findings<'_>,
    ) -> bool {
        let Some(state) = expected.effective() else {
            return true;
        };
        let oids = state.oids();
        let kinds = match self.repositories.kinds(&addr.identifier, &oids) {
            Ok(kinds) => kinds,
            Err(error) => {
                let reason = ErrorChain(&error).to_string();
                findings.add(addr, Fault::Damaged { reason });
                return false;
            }
        };
        let missing = oids.iter().zip(kinds).filter(|(_, kind)| kind.is_none());
        let missing: Vec<Oid> = missing.map(|(oid, _)| *oid).take(MAX_MISSING).collect();
        for oid in &missing {
            let (event, oid) = (state.event.id, *oid);
            findings.add(addr, Fault::MissingObject { event, oid });
        }
        missing.is_empty()
    }

    fn compare_tips(
        &self,
        addr: &RepoAddr,
        expected: &ExpectedRepository,
        current: &Refs,
        view: &NodeView<'_>,
        findings: &mut Findings<'_>,
    ) -> Result<(), GraspError> {
        for (event, tip) in &expected.lost_tips {
            let (event, oid) = (*event, *tip);
            findings.add(addr, Fault::LostTip { event, oid });
        }
        for (event, tip) in &expected.tips {
            let name = RefName::for_nostr_event(event.as_bytes());
            let is = current.refs.get(&name).copied();
            if is != Some(*tip) {
                let says = Some(*tip);
                findings.add(addr, Fault::Ref { name, is, says });
            }
        }
        for (name, oid) in &current.refs {
            let Some(id) = name.nostr_event_id() else {
                continue;
            };
            let event = EventId::from_slice(&id).expect("32 bytes");
            if expected.tips.contains_key(&event) || self.is_held_for(&event, addr) {
                continue;
            }
            if view.served_kind(&event)?.is_none() {
                findings.add(addr, Fault::OrphanRef { event });
            } else {
                // Its event is served, and does not belong here, or not any more.
                findings.add(addr, foreign(name.clone(), *oid));
            }
        }
        Ok(())
    }

    fn compare_waiting(&self, expected: &Expected, findings: &mut Findings<'_>) {
        let awaited = expected.awaited();
        let purgatory = self.purgatory.lock();
        for entry in purgatory.find_state(findings.identifier) {
            if !awaited.contains(&entry.held.author()) {
                let event = entry.held.id();
                findings.add_to_all(Fault::HeldForNothing { event });
            }
        }
        let waits = purgatory.has_pending_events(findings.identifier);
        if waits && purgatory.sync_entry(findings.identifier).is_none() {
            findings.add_to_all(Fault::NotLookedFor);
        }
    }
}

/// A ref that has to go.
fn foreign(name: RefName, oid: Oid) -> Fault {
    Fault::Ref {
        name,
        is: Some(oid),
        says: None,
    }
}

/// The place that the rounds over all identifiers have come to.
#[derive(Default)]
pub(crate) struct Auditor {
    after: Mutex<Option<Identifier>>,
}

impl Auditor {
    /// The next `count` of `all`, from the beginning again at the end.
    fn next(&self, all: &BTreeSet<Identifier>, count: usize) -> Vec<Identifier> {
        let mut after = self.after.lock();
        let from = match after.as_ref() {
            Some(after) => (Bound::Excluded(after.clone()), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let next: Vec<Identifier> = all.range(from).take(count).cloned().collect();
        *after = next.last().filter(|_| next.len() == count).cloned();
        next
    }
}

impl Core {
    /// Audits the next few identifiers, and settles what is found. At rest nothing is: each finding
    /// is told to the operator.
    ///
    /// A part of the sweep, so that no entry is between its end in memory and its end on disk.
    pub(crate) async fn audit_some(self: &Arc<Self>) -> Result<usize, GraspError> {
        self.look_at_suspects().await;
        let mut disagreements = 0;
        for identifier in self.auditor.next(&self.identifiers(), PER_ROUND) {
            match self.audit_and_settle(&identifier).await {
                Ok(found) => disagreements += found,
                Err(GraspError::Stopped) => return Err(GraspError::Stopped),
                // One that cannot be looked at, for the many who wait for their turn there for example,
                // keeps no other from it.
                Err(error) => error.log("failed to compare relay and git about one identifier"),
            }
        }
        Ok(disagreements)
    }

    async fn audit_and_settle(
        self: &Arc<Self>,
        identifier: &Identifier,
    ) -> Result<usize, GraspError> {
        self.prune_ref_moves(identifier).await?;
        if self.repositories.is_cold(identifier) {
            // To look at it would fetch it from the object store, and evict what people use.
            return Ok(0);
        }
        let found = self.audit(identifier).await?;
        for disagreement in &found {
            tracing::error!(%disagreement, "relay and git do not agree");
        }
        if !found.is_empty() {
            self.settle_in_turn(identifier).await;
        }
        Ok(found.len())
    }

    pub(super) async fn audit(
        self: &Arc<Self>,
        identifier: &Identifier,
    ) -> Result<Vec<Disagreement>, GraspError> {
        let _turns = self.turns(vec![identifier.clone()]).await?;
        let identifier = identifier.clone();
        let compare = move |core: &Self| core.compare(&identifier, Scope::All);
        self.blocking("grasp.audit", compare).await?
    }
}

struct Findings<'a> {
    identifier: &'a Identifier,
    list: Vec<Disagreement>,
}

impl Findings<'_> {
    fn add(&mut self, addr: &RepoAddr, fault: Fault) {
        self.put(Some(addr.clone()), fault);
    }

    fn add_to_all(&mut self, fault: Fault) {
        self.put(None, fault);
    }

    fn put(&mut self, repository: Option<RepoAddr>, fault: Fault) {
        self.list.push(Disagreement {
            identifier: self.identifier.clone(),
            repository,
            fault,
        });
    }
}
