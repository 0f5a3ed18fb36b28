//! Kind 30617: which repositories live here (G01-2 … G01-6, G01-15a).

use grip_nostr::{Address, Announcement, Event, RepoAddr, State};
use grip_relay::Members;

use super::{
    Announcements, Cause, Decision, Effect, EventStatus, Grant, Outcome, Prefix, Reason, View,
    ViewError, announcements::outdated, decision::Trail, effective_state,
};
use crate::policy::Policy;

pub(super) fn judge(
    event: &Event,
    view: &dyn View,
    policy: &Policy,
    mut trail: Trail,
) -> Result<Decision, ViewError> {
    let announcement = match Announcement::parse(event.clone()) {
        Ok(announcement) => announcement,
        Err(problem) => return Ok(trail.refuse("G01-4", Reason::invalid(problem))),
    };
    let addr = announcement.addr();
    if policy.bans(&addr) {
        let text = "the operator of this server does not take this repository";
        let reason = Reason::new(Prefix::Blocked, Cause::Banned, text);
        return Ok(trail.refuse("G01-9", reason));
    }
    let is_stranger = |members: &Members| !members.contains(&addr.owner);
    if policy.members.as_ref().is_some_and(is_stranger) {
        let text = "this service is private, and the author is not one of its members";
        let reason = Reason::new(Prefix::Blocked, Cause::NotAMember, text);
        return Ok(trail.refuse("G08-12", reason));
    }
    let announcements = Announcements::load(&announcement.identifier, view, policy)?;
    if let Some((known, _)) = announcements.of(&addr.owner)
        && let Some(reason) = outdated(event, &known.event)
    {
        return Ok(trail.refuse("G01-15a 2", reason));
    }
    if view
        .departure(&addr)?
        .is_some_and(|left| left.supersedes(event))
    {
        let text = "a later announcement of yours, by which this repository left this server, \
                    counts; sign this again with a later created_at if it is meant to come back";
        let reason = Reason::new(Prefix::Invalid, Cause::Superseded, text);
        return Ok(trail.refuse("G01-64", reason));
    }
    let case = Case {
        announcement,
        announcements,
        view,
        policy,
    };
    match case.objection() {
        Ok((rule, text)) => {
            trail.note(rule, text);
            case.accept(trail)
        }
        Err((rule, reason)) if reason.cause == Cause::Private => case.refuse(trail, rule, reason),
        Err((rule, reason)) => {
            trail.note(rule, reason.text.clone());
            if case.is_exception() {
                case.except(trail)
            } else {
                case.refuse(trail, "G01-6", reason)
            }
        }
    }
}

/// A well-formed announcement that is newer than what is known of its address.
struct Case<'a> {
    announcement: Announcement,
    announcements: Announcements,
    view: &'a dyn View,
    policy: &'a Policy,
}

impl Case<'_> {
    /// Why the author gets no repository here; else by which rule they get one (G05-9).
    fn objection(&self) -> Result<(&'static str, &'static str), (&'static str, Reason)> {
        let blocked = |cause, text: String| Reason::new(Prefix::Blocked, cause, text);
        let service = &self.policy.service;
        let lists_us = self.announcement.lists(service);
        if self.announcement.is_private() && self.policy.members.is_none() {
            let text = "this server has no private repositories, and a public copy would betray \
                        yours; announce it without the `private` tag or elsewhere";
            return Err(("GRASP-08", blocked(Cause::Private, text.into())));
        }
        let is_selected = self.policy.selects(&self.announcement.addr());
        let archive = &self.policy.archive;
        if lists_us && is_selected && !archive.read_only {
            return Ok(("G01-3", "clone and relays list this service"));
        }
        if archive.selects(&self.announcement) {
            return Ok(("G05-6", "the operator archives this repository"));
        }
        if lists_us && archive.read_only {
            let text = "this server is a read-only archive, and its operator has not chosen this \
                        repository; announce it elsewhere";
            return Err(("G05-8", blocked(Cause::NotSelected, text.into())));
        }
        if lists_us {
            let text = "this server hosts only repositories its operator has chosen; ask them, or \
                        announce it elsewhere";
            return Err(("G01-5", blocked(Cause::NotSelected, text.into())));
        }
        let missing = match (
            self.announcement.clones_from(service),
            self.announcement.relays_through(service),
        ) {
            (true, _) => format!("`relays` lacks {}", service.relay_url()),
            (_, true) => format!("`clone` lacks {}", self.clone_url()),
            _ => format!(
                "`clone` lacks {} and `relays` lacks {}",
                self.clone_url(),
                service.relay_url()
            ),
        };
        let text = format!("announcement must list this service in clone and relays; {missing}");
        Err(("G01-2", blocked(Cause::NotListed, text)))
    }

    fn clone_url(&self) -> String {
        let path = self.announcement.addr().path();
        format!("{}/{path}", self.policy.service.http_url())
    }

    /// Serves a new version of what is served, or what has its data here; holds the rest.
    fn accept(self, mut trail: Trail) -> Result<Decision, ViewError> {
        let addr = self.announcement.addr();
        trail.then(Effect::CreateRepository(addr.clone()));
        let known = self.announcements.of(&addr.owner).map(|(_, status)| status);
        // One that is served for the sake of discovery alone has no repository to go on with.
        let has_repository = self.announcements.is_hosted(&addr.owner);
        let outcome = if known == Some(EventStatus::Served) && has_repository {
            trail.note("G01-14", "replaces a served version: nothing to wait for");
            Outcome::Serve
        } else if self.has_data()? {
            trail.note(
                "G01-15a 3",
                "a served state speaks for it: its data is here",
            );
            Outcome::Serve
        } else {
            trail.note("G01-14", "new here: waits for the first push");
            Outcome::Hold
        };
        let status = match outcome {
            Outcome::Serve => EventStatus::Served,
            _ => EventStatus::Held,
        };
        let after = self.after(status);
        let grants = after.grants(&addr.owner);
        trail.find_room(grants.iter().map(Grant::family).collect());
        trail.drop_states(&addr.identifier, after.orphaned(self.view)?);
        trail.then(Effect::Reexamine(addr.identifier));
        Ok(trail.end(outcome))
    }

    /// Says whether a served state already speaks for this repository. An empty state does not:
    /// anyone could have one served, and it proves no data.
    fn has_data(&self) -> Result<bool, ViewError> {
        let owner = self.announcement.owner();
        let after = self.after(EventStatus::Held);
        let set = after.set_of(&owner);
        let mut states = Vec::new();
        for member in set.iter() {
            let addr = RepoAddr::new(*member, self.announcement.identifier.clone());
            let state = self.view.latest(&Address::of_state(&addr))?;
            states.extend(state.and_then(|event| State::parse(event).ok()));
        }
        let effective = effective_state(&set, &states);
        Ok(effective.is_some_and(|state| !state.refs.is_empty()))
    }

    /// The announcements of the identifier with this one among them.
    fn after(&self, status: EventStatus) -> Announcements {
        self.announcements
            .with(&self.announcement, status, self.policy)
    }

    /// Says whether it is taken for discovery alone: somebody else who is hosted here lists its
    /// author, or an earlier version was taken so (G01-6, G01-64).
    fn is_exception(&self) -> bool {
        let author = self.announcement.owner();
        let is_served = |(_, status)| status == EventStatus::Served;
        let was_exception = || {
            self.announcements.of(&author).is_some_and(is_served)
                && !self.announcements.is_hosted(&author)
        };
        self.after(EventStatus::Served).is_listed(&author)
            || self.announcements.is_listed(&author)
            || was_exception()
    }

    /// Serves a maintainer's announcement of another server: recursion runs through it.
    fn except(self, mut trail: Trail) -> Result<Decision, ViewError> {
        trail.note(
            "G01-6",
            "a repository hosted here lists its author: served, without a repository",
        );
        let after = self.after(EventStatus::Served);
        self.give_up(&mut trail, &after)?;
        let identifier = self.announcement.identifier.clone();
        trail.then(Effect::Reexamine(identifier));
        Ok(trail.end(Outcome::Serve))
    }

    fn refuse(
        self,
        mut trail: Trail,
        rule: &'static str,
        reason: Reason,
    ) -> Result<Decision, ViewError> {
        // The operator's choice does not undo what the owner still asks for.
        if reason.cause != Cause::NotSelected {
            let after = self.announcements.without(&self.announcement.owner());
            self.give_up(&mut trail, &after)?;
        }
        let text = match reason.cause {
            Cause::Private => reason.text.clone(),
            _ => "no repository hosted here lists its author".into(),
        };
        trail.note(rule, text);
        Ok(trail.end(Outcome::Refuse(reason)))
    }

    /// Says whether the owner has something here that this takes back.
    fn leaves(&self) -> bool {
        self.announcements.is_hosted(&self.announcement.owner())
    }

    /// The owner left this server: what they had here goes (G01-18), and stays gone.
    fn give_up(&self, trail: &mut Trail, after: &Announcements) -> Result<(), ViewError> {
        let addr = self.announcement.addr();
        let of = self.announcements.of(&addr.owner).map(|(_, status)| status);
        let leave = |of| Effect::Leave {
            by: Box::new(self.announcement.event.clone()),
            of,
        };
        match of {
            Some(EventStatus::Served) if self.leaves() => {
                trail.note(
                    "G01-15a 6",
                    "the served version was hosted here: it is withdrawn",
                );
                trail.then(leave(of));
            }
            Some(EventStatus::Held | EventStatus::Hidden) => {
                trail.note("G01-18", "the held version is evicted");
                trail.then(if self.leaves() {
                    leave(of)
                } else {
                    Effect::EvictAnnouncement(addr.clone())
                });
                trail.drop_states(&addr.identifier, after.orphaned(self.view)?);
            }
            // A later departure takes the place of the one that is remembered.
            _ if self.view.departure(&addr)?.is_some() => trail.then(leave(None)),
            _ => {}
        }
        Ok(())
    }
}
