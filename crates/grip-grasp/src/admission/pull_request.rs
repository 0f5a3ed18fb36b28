//! Kinds 1618 and 1619: pull requests and their updates (G01-48 … G01-50), also those whose tip is in
//! a contributor repository here and whose target is not (G06-5 … G06-9).

use std::collections::BTreeMap;

use grip_nostr::{
    Address, Event, MaintainerSet, PublicKey, PullRequest, RepoAddr, kinds, references,
};
use grip_purgatory::Family;
use grip_types::{CONTRIBUTORS, Identifier};
use url::Url;

use super::{
    Announcements, Cause, Decision, Effect, Found, Outcome, Prefix, Reason, View, ViewError,
    decision::Trail,
    related::{is_address_held, no_git_data},
};
use crate::policy::{Policy, PullRequestRefs};

/// Repositories that one pull request may be meant for: a project, under the name of each of its
/// maintainers.
const MAX_TARGETS: usize = 16;
/// Names of those, each of which costs a turn and a decision: few projects have more than one.
const MAX_IDENTIFIERS: usize = 4;
/// Clone URLs of one pull request that are looked at.
const MAX_CLONE_URLS: usize = 64;
/// Events that one pull request is looked up through.
const MAX_ROOTS: usize = 8;

pub(super) fn judge(
    event: &Event,
    view: &dyn View,
    policy: &Policy,
    mut trail: Trail,
) -> Result<Decision, ViewError> {
    let request = match PullRequest::parse(event.clone()) {
        Ok(request) => request,
        Err(problem) => return Ok(trail.refuse("G01-50", Reason::invalid(problem))),
    };
    if names_too_many(&request) {
        let text = format!(
            "a pull request names at most {MAX_TARGETS} repositories of {MAX_IDENTIFIERS} different \
             names here"
        );
        return Ok(trail.refuse("G01-49", Reason::invalid(text)));
    }
    let targets = targets(&request, view, policy)?;
    if spans_too_many(&targets) {
        let text = format!(
            "what this pull request continues names repositories of more than {MAX_IDENTIFIERS} \
             different names; name those it is for by `a`"
        );
        return Ok(trail.refuse("G01-49", Reason::invalid(text)));
    }
    let contributed = if policy.contributors {
        let mut named = contributor_repositories(&request, policy);
        named.retain(|repository| !is_banned(&request, repository, policy));
        named
    } else {
        Vec::new()
    };
    if targets.is_empty() && contributed.is_empty() {
        let (rule, reason) = if waits_itself(&request, view)? {
            ("G01-8", no_git_data())
        } else {
            ("G01-48a", unrelated())
        };
        return Ok(trail.refuse(rule, reason));
    }
    let known = announcements(&targets, view, policy)?;
    let repositories = relevant(&targets, &known);
    if repositories.is_empty() && contributed.is_empty() {
        return Ok(trail.refuse("G01-49", unrelated()));
    }
    if let Some(reason) = lacks_room(&event.pubkey, &repositories, &known, view, policy)? {
        return Ok(trail.refuse("G01-49", reason));
    }
    let mut families = families(&event.pubkey, &targets, &known);
    families.extend(contributed.iter().map(|repository| Family {
        repository: repository.clone(),
        granted: false,
    }));
    trail.find_room(families);
    for repository in &repositories {
        trail.note("G01-49", format!("its tip belongs into {repository}"));
    }
    for repository in &contributed {
        trail.note("G06-5", format!("its tip may be in {repository}"));
    }
    let source = source(&request, &contributed, view)?;
    let Some(holders) = holders(&request, &repositories, source.is_some(), view)? else {
        let text = format!("{} in its `c` tag is no commit", request.tip.short());
        return Ok(trail.refuse("G01-50", Reason::invalid(text)));
    };
    let all = repositories.into_iter().chain(contributed).collect();
    clear_wrong_refs(&request, all, view, &mut trail)?;
    if holders.is_empty() && source.is_none() {
        trail.note(
            "G01-48",
            format!("its tip {} is not here", request.tip.short()),
        );
        return Ok(trail.end(Outcome::Hold));
    }
    trail.note("G01-48", "its tip is here");
    trail.then(Effect::SetPullRequestRef {
        event: event.id,
        tip: request.tip,
        repositories: holders,
        source,
    });
    Ok(trail.end(Outcome::Serve))
}

/// Says whether the author of a pull request owns each served repository that it names by `a`, or is listed
/// by its owner. One of his own beside another's makes no difference to the other. It costs a look by key
/// for each, whatever strangers announce: a key that only another listed key lists is a contributor here.
pub(crate) fn by_maintainer(
    event: &Event,
    view: &dyn View,
    policy: &Policy,
) -> Result<bool, ViewError> {
    let Ok(request) = PullRequest::parse(event.clone()) else {
        return Ok(false);
    };
    if names_too_many(&request) {
        return Ok(false);
    }
    let targets = served(&request.targets, view, policy)?;
    let author = event.pubkey.to_hex();
    for target in &targets {
        let of_owner = view.announcements_of(target, policy)?;
        let mut tags = of_owner
            .iter()
            .flat_map(|known| known.read.announcement.event.tags.iter());
        let is_listed = tags.any(|tag| {
            ["maintainers", "M", "m"].contains(&tag.kind()) && tag.as_slice()[1..].contains(&author)
        });
        if target.owner != event.pubkey && !is_listed {
            return Ok(false);
        }
    }
    Ok(!targets.is_empty())
}

/// Says whether a pull request is refused for what it names, whatever is here.
pub(super) fn names_too_many(request: &PullRequest) -> bool {
    request.targets.len() > MAX_TARGETS || spans_too_many(&request.targets)
}

/// Says whether repositories are of more names than one pull request may be for. Its author may choose
/// an event of any size to inherit them from.
pub(super) fn spans_too_many(targets: &[RepoAddr]) -> bool {
    identifiers(targets).len() > MAX_IDENTIFIERS
}

/// The contributor repositories that `request` names: by a `clone` value that is this service's
/// `/prs/<npub of its signer>/<identifier of one of its targets>.git`, and nothing else (G06-7).
pub(crate) fn contributor_repositories(request: &PullRequest, policy: &Policy) -> Vec<RepoAddr> {
    let mut found = Vec::new();
    for value in request.clone.iter().take(MAX_CLONE_URLS) {
        let Some(repository) = contributor_repository(value, policy) else {
            continue;
        };
        let is_signers = repository.owner == request.event.pubkey;
        let is_target = |target: &RepoAddr| target.identifier == repository.identifier;
        let is_named = is_signers && request.targets.iter().any(is_target);
        if is_named && !found.contains(&repository) {
            found.push(repository);
        }
    }
    found
}

/// Says whether the operator bans a contributor repository, or all that `request` is for in it.
pub(crate) fn is_banned(request: &PullRequest, repository: &RepoAddr, policy: &Policy) -> bool {
    let is_target = |target: &&RepoAddr| target.identifier == repository.identifier;
    let mut targets = request.targets.iter().filter(is_target);
    policy.bans(repository) || targets.all(|target| policy.bans(target))
}

fn contributor_repository(value: &str, policy: &Policy) -> Option<RepoAddr> {
    let url = Url::parse(value).ok()?;
    if url.query().is_some() || url.fragment().is_some() || url.password().is_some() {
        return None;
    }
    let mut names = policy.names();
    let segments = names.find_map(|name| name.segments_of(&url, &["http", "https"]))?;
    match segments[..] {
        [CONTRIBUTORS, npub, name] => RepoAddr::contributor_from_segments(npub, name),
        _ => None,
    }
}

/// A contributor repository that has the tip.
fn source(
    request: &PullRequest,
    contributed: &[RepoAddr],
    view: &dyn View,
) -> Result<Option<RepoAddr>, ViewError> {
    for repository in contributed {
        if view.is_staged(repository, &request.event.id, &request.tip)? {
            return Ok(Some(repository.clone()));
        }
    }
    Ok(None)
}

/// A repository that tips of pull requests are pushed to, with what says whether they belong there: read
/// once, however many there are.
pub(crate) struct Receiver<'a> {
    repository: &'a RepoAddr,
    /// None of a repository that cannot be reached.
    maintainers: Option<MaintainerSet>,
}

impl<'a> Receiver<'a> {
    pub(crate) fn load(
        repository: &'a RepoAddr,
        view: &dyn View,
        policy: &Policy,
    ) -> Result<Self, ViewError> {
        let maintainers = if repository.is_contributor() {
            None
        } else {
            let announcements = Announcements::load_of(repository, view, policy)?;
            let is_reachable = announcements.hosted().any(|it| it == *repository);
            is_reachable.then(|| announcements.set_of(&repository.owner))
        };
        Ok(Self {
            repository,
            maintainers,
        })
    }

    /// Says whether the tip of `request` belongs there (G01-45, G01-49, G06-8).
    pub(crate) fn takes(
        &self,
        request: &PullRequest,
        view: &dyn View,
        policy: &Policy,
    ) -> Result<bool, ViewError> {
        if self.repository.is_contributor() {
            return Ok(contributor_repositories(request, policy).contains(self.repository));
        }
        let Some(maintainers) = &self.maintainers else {
            return Ok(false);
        };
        let targets = targets(request, view, policy)?;
        Ok(includes_owner(maintainers, self.repository, &targets))
    }
}

/// The served events that a pull request names, the first few: a stranger chooses how many there are.
fn roots(event: &Event, view: &dyn View) -> Result<Vec<Event>, ViewError> {
    let mut roots = Vec::new();
    for id in references(event).ids {
        if roots.len() == MAX_ROOTS {
            break;
        }
        if view.served_kind(&id)?.is_some() {
            roots.extend(view.served_event(&id)?);
        }
    }
    Ok(roots)
}

fn unrelated() -> Reason {
    let text = "it names no repository served here, neither by `a` nor through the pull request \
                it updates";
    Reason::new(Prefix::Blocked, Cause::Unrelated, text)
}

/// The repositories it is meant for whose announcement is served: by its own `a` tags, else by
/// those of the served pull request or patch it continues.
pub(crate) fn targets(
    request: &PullRequest,
    view: &dyn View,
    policy: &Policy,
) -> Result<Vec<RepoAddr>, ViewError> {
    let own = served(&request.targets, view, policy)?;
    if !own.is_empty() {
        return Ok(own);
    }
    for root in roots(&request.event, view)? {
        let inherited = served(&named_by(&root), view, policy)?;
        if !inherited.is_empty() {
            return Ok(inherited);
        }
    }
    Ok(Vec::new())
}

fn served(
    targets: &[RepoAddr],
    view: &dyn View,
    policy: &Policy,
) -> Result<Vec<RepoAddr>, ViewError> {
    let mut served = Vec::new();
    for target in targets.iter().filter(|target| !policy.bans(target)) {
        if view.is_address_served(&Address::of_announcement(target))? {
            served.push(target.clone());
        }
    }
    Ok(served)
}

/// The repositories an event names by `a`.
fn named_by(event: &Event) -> Vec<RepoAddr> {
    let values = event.tags.iter().filter(|tag| tag.kind() == "a");
    values
        .filter_map(|tag| tag.content()?.parse::<Address>().ok())
        .filter(|address| address.kind == kinds::ANNOUNCEMENT)
        .filter_map(|address| address.repository())
        .collect()
}

/// Says whether what it refers to is held and not served.
fn waits_itself(request: &PullRequest, view: &dyn View) -> Result<bool, ViewError> {
    for target in &request.targets {
        if is_address_held(&Address::of_announcement(target), view)? {
            return Ok(true);
        }
    }
    for id in references(&request.event).ids {
        if view.is_kept(&id)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Every hosted repository of a target's identifier whose maintainers include that target's owner
/// (G01-49).
fn relevant(
    targets: &[RepoAddr],
    announcements: &BTreeMap<Identifier, Announcements>,
) -> Vec<RepoAddr> {
    let mut relevant = Vec::new();
    for announcements in announcements.values() {
        for repository in announcements.hosted() {
            if is_relevant(&repository, targets, announcements) {
                relevant.push(repository);
            }
        }
    }
    relevant
}

/// Says whether what is meant for `targets` belongs into `repository`, by the announcements of its
/// identifier.
pub(crate) fn is_relevant(
    repository: &RepoAddr,
    targets: &[RepoAddr],
    announcements: &Announcements,
) -> bool {
    let maintainers = announcements.set_of(&repository.owner);
    includes_owner(&maintainers, repository, targets)
}

/// Says whether one of `targets` of the repository's name is of one of its maintainers.
fn includes_owner(
    maintainers: &MaintainerSet,
    repository: &RepoAddr,
    targets: &[RepoAddr],
) -> bool {
    let mut same = targets
        .iter()
        .filter(|target| target.identifier == repository.identifier);
    same.any(|target| maintainers.contains(&target.owner))
}

/// The announcements of every identifier of `targets`.
fn announcements(
    targets: &[RepoAddr],
    view: &dyn View,
    policy: &Policy,
) -> Result<BTreeMap<Identifier, Announcements>, ViewError> {
    let load = |identifier: &Identifier| {
        let announcements = Announcements::load(identifier, view, policy)?;
        Ok((identifier.clone(), announcements))
    };
    identifiers(targets).into_iter().map(load).collect()
}

/// Whose room a pull request of `author` may take: that of a repository it is meant for. All of
/// `targets` are served.
fn families(
    author: &PublicKey,
    targets: &[RepoAddr],
    announcements: &BTreeMap<Identifier, Announcements>,
) -> Vec<Family> {
    let family = |target: &RepoAddr| Family {
        repository: target.clone(),
        granted: announcements
            .get(&target.identifier)
            .is_some_and(|known| known.set_of(&target.owner).contains(author)),
    };
    targets.iter().map(family).collect()
}

/// Why no further pull request of `author` fits into one of `repositories`, if so. Maintainers always
/// find room.
fn lacks_room(
    author: &PublicKey,
    repositories: &[RepoAddr],
    announcements: &BTreeMap<Identifier, Announcements>,
    view: &dyn View,
    policy: &Policy,
) -> Result<Option<Reason>, ViewError> {
    let PullRequestRefs {
        per_author,
        per_repository,
    } = policy.pull_request_refs;
    for repository in repositories {
        let known = announcements.get(&repository.identifier);
        if known.is_some_and(|known| known.set_of(&repository.owner).contains(author)) {
            continue;
        }
        let refs = view.request_refs(repository, author, per_author)?;
        let text = if refs.of_author >= per_author {
            format!(
                "{per_author} pull requests and updates of this author are in {repository}; \
                 delete those that are done (kind 5)"
            )
        } else if refs.all >= per_repository {
            format!(
                "{per_repository} pull requests are in {repository}; only its maintainers can add more"
            )
        } else {
            continue;
        };
        return Ok(Some(Reason::new(Prefix::Blocked, Cause::Full, text)));
    }
    Ok(None)
}

pub(super) fn identifiers(repositories: &[RepoAddr]) -> Vec<&Identifier> {
    let mut identifiers: Vec<_> = repositories.iter().map(|r| &r.identifier).collect();
    identifiers.sort();
    identifiers.dedup();
    identifiers
}

/// Those of `repositories` that have the tip, or will once what is staged in one of them, or what a
/// contributor has, is promoted; none at all if it turns out to be no commit.
fn holders(
    request: &PullRequest,
    repositories: &[RepoAddr],
    is_contributed: bool,
    view: &dyn View,
) -> Result<Option<Vec<RepoAddr>>, ViewError> {
    let mut holders = Vec::new();
    for identifier in identifiers(repositories) {
        let same = || repositories.iter().filter(|r| r.identifier == *identifier);
        let is_here = match view.objects(identifier, &[request.tip])?.first() {
            Some(Found::Other) => return Ok(None),
            Some(Found::Commit) => true,
            Some(Found::Missing) | None => {
                let mut is_staged = is_contributed;
                for repository in same() {
                    is_staged |= view.is_staged(repository, &request.event.id, &request.tip)?;
                }
                is_staged
            }
        };
        if is_here {
            holders.extend(same().cloned());
        }
    }
    Ok(Some(holders))
}

/// Refs pushed ahead of the event go where they are at another commit, or in a repository the
/// event does not belong to.
fn clear_wrong_refs(
    request: &PullRequest,
    repositories: Vec<RepoAddr>,
    view: &dyn View,
    trail: &mut Trail,
) -> Result<(), ViewError> {
    let mut foreign = view.placeholders(&request.event.id)?;
    foreign.retain(|repository| !repositories.contains(repository));
    let mut clear = |repositories: Vec<RepoAddr>, unless| {
        if !repositories.is_empty() {
            let event = request.event.id;
            trail.then(Effect::ClearPullRequestRef {
                event,
                repositories,
                unless,
            });
        }
    };
    clear(foreign, None);
    clear(repositories, Some(request.tip));
    Ok(())
}
