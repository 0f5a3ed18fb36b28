//! Kind 30618: what the refs of a repository are (G01-16, G01-30).

use grip_nostr::{Address, Event, MaintainerSet, State, kinds, supersedes};
use grip_purgatory::Family;
use grip_types::RefName;

use super::{
    Announcements, Cause, Decision, Effect, EventStatus, Found, Grant, HeldState, Outcome, Prefix,
    Reason, View, ViewError,
    announcements::{outdated, why_not},
    decision::{Step, Trail},
};
use crate::{policy::Policy, summary::npub};

/// Sentences about a maintainer set in one decision.
const MAX_WORDS: usize = 8;

/// The state that counts among those of a maintainer set: the latest, and of two made in the same
/// second the one with the lowest id (G01-30).
pub(crate) fn effective_state<'a>(
    set: &MaintainerSet,
    states: impl IntoIterator<Item = &'a State>,
) -> Option<&'a State> {
    let by_members = states
        .into_iter()
        .filter(|state| set.contains(&state.event.pubkey));
    by_members.reduce(|best, state| {
        if supersedes(&state.event, &best.event) {
            state
        } else {
            best
        }
    })
}

pub(super) fn judge(
    event: &Event,
    view: &dyn View,
    policy: &Policy,
    mut trail: Trail,
) -> Result<Decision, ViewError> {
    let state = match State::parse(event.clone()) {
        Ok(state) => state,
        Err(problem) => return Ok(trail.refuse("G01-16 1", Reason::invalid(problem))),
    };
    let held = own_held(&state, view)?;
    if let Some(reason) = superseded(&state, view)? {
        return Ok(trail.refuse("G01-16 3", reason));
    }
    let announcements = Announcements::load(&state.identifier, view, policy)?;
    if announcements.is_empty() {
        let text = "no announcement exists for this repository on this server; send it first";
        let reason = Reason::new(Prefix::Invalid, Cause::Unannounced, text);
        return Ok(trail.refuse("G01-16 4", reason));
    }
    let grants = announcements.grants(&event.pubkey);
    if grants.is_empty() {
        return Ok(unauthorised(&state, &announcements, trail));
    }
    note_grants(&grants, &announcements, &mut trail);
    trail.find_room(grants.iter().map(Grant::family).collect());
    let has_data = match look_for_data(&state, &grants, view)? {
        Data::Unfit(name) => {
            let text = format!("{name} must name a commit, and the object it names is none");
            return Ok(trail.refuse("G01-38", Reason::invalid(text)));
        }
        Data::Missing(step) => {
            trail.note(step.rule, step.text);
            false
        }
        Data::Here => true,
    };
    if let Some(winner) = tie_winner(&state, &held, view)? {
        trail.lose_tie(&winner);
    } else if has_data {
        trail.note("G01-16 6", "every object it names is here");
        trail.drop_states(&state.identifier, overtaken(&state, &held));
        trail.then(Effect::Reexamine(state.identifier));
        return Ok(trail.end(Outcome::Serve));
    }
    Ok(trail.end(Outcome::Hold))
}

/// Holds the state of a key that is invited, which may accept within the second (G01-80), and
/// refuses that of any other.
fn unauthorised(state: &State, announcements: &Announcements, mut trail: Trail) -> Decision {
    let author = &state.event.pubkey;
    let denials = announcements.denials(author);
    let invitations = announcements.invitations(author);
    if let Some(first) = invitations.first() {
        let set = announcements.set_of(&first.repository.owner);
        let text = format!(
            "{} waits for its author to accept: {}; it moves no refs until then",
            first.repository,
            why_not(&set, author)
        );
        trail.note("G01-80", text);
        trail.deny(denials);
        // What authorises nothing takes room among strangers.
        let families = invitations.into_iter().map(|invitation| Family {
            repository: invitation.repository,
            granted: false,
        });
        trail.find_room(families.collect());
        return trail.end(Outcome::Hold);
    }
    let text = match denials.first() {
        Some(denial) => format!(
            "author not authorized for {}: {}",
            denial.repository, denial.why
        ),
        None => "author not authorized for this repository: no owner here lists them as a \
                 maintainer"
            .to_owned(),
    };
    let rule = if denials.is_empty() {
        "G01-16 5"
    } else {
        "G01-73"
    };
    trail.deny(denials);
    let reason = Reason::new(Prefix::Invalid, Cause::Unauthorised, text);
    trail.refuse(rule, reason)
}

/// The author's other held versions.
fn own_held(state: &State, view: &dyn View) -> Result<Vec<HeldState>, ViewError> {
    let mut held = view.held_states(&state.identifier)?;
    held.retain(|other| other.author == state.event.pubkey && other.id != state.event.id);
    Ok(held)
}

/// Why this version does not count beside the one that is served.
fn superseded(state: &State, view: &dyn View) -> Result<Option<Reason>, ViewError> {
    let event = &state.event;
    let address = Address {
        kind: kinds::STATE,
        author: event.pubkey,
        d: state.identifier.as_str().to_owned(),
    };
    let served = view.latest(&address)?;
    Ok(served.and_then(|served| outdated(event, &served)))
}

/// The author's held version of the same second that counts instead of this one. Several versions
/// may be held, as pushes for each may be under way; but of two of one second only one can count,
/// and if the other did too, it would silently undo what was pushed for the first.
fn tie_winner(
    state: &State,
    held: &[HeldState],
    view: &dyn View,
) -> Result<Option<grip_nostr::EventId>, ViewError> {
    let event = &state.event;
    let ties = held
        .iter()
        .filter(|other| other.created_at == event.created_at);
    for other in ties.filter(|other| other.id < event.id) {
        let other = view.held_event(&other.id)?.map(State::parse);
        // One that can never match is ahead of nobody.
        if let Some(Ok(winner)) = other
            && winner.is_satisfiable()
        {
            return Ok(Some(winner.event.id));
        }
    }
    Ok(None)
}

/// Which of the author's held versions this one puts an end to when it is served (G01-17).
fn overtaken(state: &State, held: &[HeldState]) -> Vec<grip_nostr::EventId> {
    let this = &state.event;
    let is_older = |other: &&HeldState| {
        other.created_at < this.created_at
            || (other.created_at == this.created_at && other.id > this.id)
    };
    held.iter().filter(is_older).map(|other| other.id).collect()
}

fn note_grants(grants: &[Grant], announcements: &Announcements, trail: &mut Trail) {
    for grant in grants {
        let how = match grant.status {
            EventStatus::Served => "served",
            EventStatus::Held => "held",
            EventStatus::Hidden => "hidden, brought back",
        };
        let text = format!("its author maintains {} ({how})", grant.repository);
        trail.note("G01-74", text);
        if grant.status != EventStatus::Served {
            trail.then(Effect::KeepAlive(grant.repository.clone()));
        }
    }
    if let Some(first) = grants.first() {
        let set = announcements.set_of(&first.repository.owner);
        for line in set.in_words(npub).into_iter().take(MAX_WORDS) {
            trail.note("G01-74", line);
        }
    }
    if grants.iter().all(|grant| grant.legacy_only) {
        trail.flag_legacy_only();
    }
}

enum Data {
    Here,
    Missing(Step),
    /// This branch names something that is no commit.
    Unfit(RefName),
}

fn look_for_data(state: &State, grants: &[Grant], view: &dyn View) -> Result<Data, ViewError> {
    let missing = |rule, text: String| {
        let text = text.into();
        Data::Missing(Step { rule, text })
    };
    let (names, oids): (Vec<_>, Vec<_>) = state.refs.iter().map(|(n, o)| (n, *o)).unzip();
    if let Some(name) = state.unresolvable.first() {
        let text = format!("the value of {name} is no object id: waits, and can never match");
        return Ok(missing("G01-38", text));
    }
    if oids.is_empty() && grants.iter().all(|g| g.status != EventStatus::Served) {
        // Otherwise a key and two small events would put an announcement on show.
        let text = "it names no refs and no owner's announcement is served yet: waits for a push";
        return Ok(missing("G01-14", text.to_owned()));
    }
    let found = view.objects(&state.identifier, &oids)?;
    let unfit = |(name, found): &(&&RefName, &Found)| name.is_head() && **found == Found::Other;
    if let Some((name, _)) = names.iter().zip(&found).find(unfit) {
        return Ok(Data::Unfit((*name).clone()));
    }
    let absent = || {
        found
            .iter()
            .enumerate()
            .filter(|(_, f)| **f == Found::Missing)
    };
    Ok(match absent().next() {
        None => Data::Here,
        Some((first, _)) => missing(
            "G01-16 7",
            format!(
                "{} of {} refs name objects that are not here, such as {} at {}",
                absent().count(),
                oids.len(),
                names[first],
                oids[first].short()
            ),
        ),
    })
}
