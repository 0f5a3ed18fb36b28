//! Targets: the relays that are followed, and what is wanted of each (G02-5, G02-10, G02-49).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _, RandomState},
    rc::Rc,
    sync::{Arc, LazyLock},
};

use grip_nostr::{Address, EventId, FollowedRepository, PublicKey, kinds};

use crate::{
    RelayUrl,
    plan::{Class, Draft, Plan},
};

/// Held announcements that one relay is asked about, each owner's share of them alike.
const MAX_HELD_OF_ONE: usize = 1_000;
/// An order among owners that none of them can choose a place in; another one in every hour, so that each has
/// a turn.
static LOTS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
/// Maintainers and participants of one repository whose requests to vanish are looked for.
const MAX_KNOWN: usize = 500;
/// Relays of one repository, in the order of its announcements; and as many of keys that are invited.
const MAX_RELAYS_OF_ONE: usize = 8;
/// The weight of one owner, for all relays they name together.
pub(crate) const VOICE: u64 = 1 << 20;

/// Issues, patches and pull requests of one repository, and the answers to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Threads {
    pub(crate) roots: Vec<EventId>,
    pub(crate) descendants: Vec<EventId>,
    /// Of those descendants that have one, and of the software of the repository.
    pub(crate) addresses: Vec<Address>,
    /// Who takes part in which of the roots.
    pub(crate) participants: Vec<TakenPart>,
}

/// Somebody's part in an issue, a patch or a pull request.
#[derive(Clone, Debug)]
pub(crate) struct TakenPart {
    pub(crate) author: PublicKey,
    pub(crate) root: EventId,
    pub(crate) is_its_author: bool,
}

/// Which addresses may be targets, and how many.
pub(crate) struct Rules<'a> {
    pub(crate) bootstrap: &'a [RelayUrl],
    /// Refuses our own addresses and names that cannot be public.
    pub(crate) may_follow: &'a dyn Fn(&RelayUrl) -> bool,
    /// Says whether the operator named a relay: it always has a place.
    pub(crate) is_configured: &'a dyn Fn(&RelayUrl) -> bool,
    pub(crate) max_relays: usize,
    /// Since 1970.
    pub(crate) hour: u64,
}

/// A repository as it is wanted from every relay of it.
struct Wanted {
    /// None of a held one, of which only announcements and states are.
    values: Vec<(Class, Arc<str>)>,
    identifier: Arc<str>,
}

/// The plan of each relay. Where there are more relays than are followed, those of the most served
/// owners come first; the voice of an owner is shared among the relays they name, so that nobody's
/// announcements push out the relays of others. Values that a plan of `before` has are shared with it.
pub(crate) fn plan(
    repositories: &[FollowedRepository],
    threads: impl Fn(&FollowedRepository) -> Rc<Threads>,
    wishes: Vec<(RelayUrl, Plan)>,
    before: &BTreeMap<RelayUrl, Arc<Plan>>,
    rules: &Rules<'_>,
) -> BTreeMap<RelayUrl, Arc<Plan>> {
    let mut targets: BTreeMap<RelayUrl, Target> = BTreeMap::new();
    for (at, repository) in repositories.iter().enumerate() {
        let of_members = relays(repository, rules);
        let of_invited = allowed(&repository.relays_of_invited, rules);
        for url in of_invited.difference(&of_members) {
            let target = targets.entry(url.clone()).or_default();
            target.add_in_part(at, repository);
        }
        for url in of_members {
            targets.entry(url).or_default().add(at, repository);
        }
    }
    let named = |owners: fn(&Target) -> &HashSet<PublicKey>| {
        let mut named: HashMap<PublicKey, u64> = HashMap::new();
        for owner in targets.values().flat_map(owners) {
            *named.entry(*owner).or_default() += 1;
        }
        named
    };
    let (served, held) = (named(|it| &it.served), named(|it| &it.held));
    let voices = |owners: &HashSet<PublicKey>, named: &HashMap<PublicKey, u64>| -> u64 {
        owners.iter().map(|owner| VOICE / named[owner]).sum()
    };
    let mut ranked: Vec<(RelayUrl, Target)> = targets.into_iter().collect();
    let is_first = |url: &RelayUrl| rules.bootstrap.contains(url);
    ranked.sort_by_cached_key(|(url, target)| {
        let (served, held) = (voices(&target.served, &served), voices(&target.held, &held));
        std::cmp::Reverse((is_first(url), served, held))
    });
    ranked.truncate(rules.max_relays);
    // Where a relay stands, and whether all of a repository is wanted of it.
    let mut of_repository: BTreeMap<usize, Vec<(usize, bool)>> = BTreeMap::new();
    for (place, (_, target)) in ranked.iter_mut().enumerate() {
        let held_places = std::mem::take(&mut target.held_places);
        let in_part = share_of_held(held_places, repositories, rules.hour);
        let whole = target.repositories.iter().map(|at| (*at, true));
        for (at, is_whole) in whole.chain(in_part.into_iter().map(|at| (at, false))) {
            of_repository.entry(at).or_default().push((place, is_whole));
        }
    }
    let revisions = revisions(repositories);
    let mut drafts: Vec<Draft> = ranked.iter().map(|_| Draft::default()).collect();
    // One repository after the other, so that what is read of it goes when it is in its plans.
    for (at, places) in of_repository {
        let known = places
            .iter()
            .filter_map(|(place, _)| before.get(&ranked[*place].0));
        let known: Vec<&Arc<Plan>> = known.collect();
        let Wanted { values, identifier } = wanted(&repositories[at], &threads, &known);
        for (place, is_whole) in places {
            let draft = &mut drafts[place];
            draft.repositories += 1;
            if !is_whole {
                draft.add(Class::Held, &identifier);
            }
            for (class, value) in values.iter().filter(|_| is_whole) {
                draft.add(*class, value);
            }
            draft.revise(&identifier, &revisions);
        }
    }
    let urls = ranked.into_iter().map(|(url, _)| url);
    let mut drafts: BTreeMap<RelayUrl, Draft> = urls.zip(drafts).collect();
    for url in rules.bootstrap.iter().filter(|url| (rules.may_follow)(url)) {
        let draft = drafts.entry(url.clone()).or_default();
        let all = repositories.iter().enumerate();
        let (served, held): (Vec<_>, Vec<_>) = all.partition(|(_, it)| it.is_served);
        for (_, repository) in served {
            let identifier: Arc<str> = repository.addr.identifier.as_str().into();
            draft.add(Class::States, &identifier);
            draft.revise(&identifier, &revisions);
        }
        // What was learnt here may have its state nowhere else.
        let held = held.into_iter().map(|(at, _)| at).collect();
        for at in share_of_held(held, repositories, rules.hour) {
            let identifier = &repositories[at].addr.identifier;
            draft.add(Class::Held, &identifier.as_str().into());
        }
    }
    for draft in drafts.values_mut() {
        draft.add(Class::Announcements, &Arc::from(""));
    }
    // What only the lists of participants name comes after all others (G03-11). The index and the fallback
    // are the operator's: relays that strangers name do not take their places.
    for (url, wish) in wishes {
        let is_followed = drafts.contains_key(&url);
        let has_place = drafts.len() < rules.max_relays || (rules.is_configured)(&url);
        if is_followed || has_place {
            drafts.entry(url).or_default().merge(&wish);
        }
    }
    let finished = drafts.into_iter();
    finished
        .map(|(url, draft)| (url, Arc::new(draft.finish())))
        .collect()
}

/// Those of the held announcements that a relay is asked about: one of each owner after the other, owners
/// of what is served here first, so that nobody's many keep out another's.
fn share_of_held(places: Vec<usize>, repositories: &[FollowedRepository], hour: u64) -> Vec<usize> {
    if places.len() <= MAX_HELD_OF_ONE {
        return places;
    }
    let served = repositories.iter().filter(|it| it.is_served);
    let served: HashSet<&PublicKey> = served.map(|it| &it.addr.owner).collect();
    let mut counts: HashMap<&PublicKey, usize> = HashMap::new();
    let mut ranked: Vec<_> = places
        .into_iter()
        .map(|at| {
            let owner = &repositories[at].addr.owner;
            let round = counts.entry(owner).or_default();
            *round += 1;
            let lot = LOTS.hash_one((hour, owner));
            (*round, !served.contains(owner), lot, at)
        })
        .collect();
    ranked.sort_unstable();
    ranked.truncate(MAX_HELD_OF_ONE);
    ranked.into_iter().map(|(.., at)| at).collect()
}

/// What stands for the owners and maintainers of each identifier.
pub(crate) fn revisions(repositories: &[FollowedRepository]) -> BTreeMap<Arc<str>, u64> {
    let mut hashers: BTreeMap<&str, DefaultHasher> = BTreeMap::new();
    for repository in repositories {
        let hasher = hashers
            .entry(repository.addr.identifier.as_str())
            .or_default();
        repository.addr.owner.hash(hasher);
        repository.is_served.hash(hasher);
        repository.members.hash(hasher);
    }
    let ended = hashers.into_iter();
    ended
        .map(|(identifier, hasher)| (identifier.into(), hasher.finish()))
        .collect()
}

#[derive(Default)]
struct Target {
    repositories: Vec<usize>,
    /// Owners, so that one of them with many repositories counts once.
    served: HashSet<PublicKey>,
    held: HashSet<PublicKey>,
    /// Those of which announcements and states are wanted; some are chosen.
    held_places: Vec<usize>,
}

impl Target {
    fn add(&mut self, at: usize, repository: &FollowedRepository) {
        let owner = repository.addr.owner;
        if repository.is_served {
            self.served.insert(owner);
            self.repositories.push(at);
        } else {
            self.add_in_part(at, repository);
        }
    }

    /// Announcements and states alone, as of what is held.
    fn add_in_part(&mut self, at: usize, repository: &FollowedRepository) {
        self.held.insert(repository.addr.owner);
        self.held_places.push(at);
    }
}

/// The relays of a repository that may be followed.
pub(crate) fn relays(repository: &FollowedRepository, rules: &Rules<'_>) -> BTreeSet<RelayUrl> {
    allowed(&repository.relays, rules)
}

fn allowed(texts: &[String], rules: &Rules<'_>) -> BTreeSet<RelayUrl> {
    let parsed = texts.iter().filter_map(|text| RelayUrl::parse(text).ok());
    let allowed = parsed.filter(|url| (rules.may_follow)(url));
    let mut seen = BTreeSet::new();
    for url in allowed {
        if seen.len() == MAX_RELAYS_OF_ONE {
            break;
        }
        seen.insert(url);
    }
    seen
}

fn wanted(
    repository: &FollowedRepository,
    threads: &impl Fn(&FollowedRepository) -> Rc<Threads>,
    known: &[&Arc<Plan>],
) -> Wanted {
    let text = |classes: &[Class], text: &str| -> Arc<str> {
        let of_plan = |plan: &&Arc<Plan>| -> Option<Arc<str>> {
            let mut same = classes.iter().filter_map(|class| plan.get(*class, text));
            same.next().cloned()
        };
        known
            .iter()
            .find_map(of_plan)
            .unwrap_or_else(|| text.into())
    };
    let identifier = repository.addr.identifier.as_str();
    let identifier = text(&[Class::States, Class::Held], identifier);
    if !repository.is_served {
        return Wanted {
            values: Vec::new(),
            identifier,
        };
    }
    let mut values = vec![(Class::States, Arc::clone(&identifier))];
    let mut add = |classes: &[Class], value: &str| {
        let value = text(&classes[..1], value);
        values.extend(classes.iter().map(|class| (*class, Arc::clone(&value))));
    };
    let announcement = Address::of_announcement(&repository.addr);
    let state = Address {
        kind: kinds::STATE,
        ..announcement.clone()
    };
    for address in [announcement, state] {
        let classes = [Class::Address, Class::RootAddress, Class::Quote];
        add(&classes, &address.to_string());
    }
    let threads = threads(repository);
    let authors = repository.members.iter();
    let authors = authors.chain(threads.participants.iter().map(|taken| &taken.author));
    let authors: BTreeSet<&PublicKey> = authors.take(MAX_KNOWN).collect();
    for author in authors {
        add(&[Class::Vanish], &author.to_hex());
    }
    for id in &threads.roots {
        add(
            &[Class::Event, Class::RootEvent, Class::Quote],
            &id.to_hex(),
        );
    }
    for id in &threads.descendants {
        add(&[Class::Descendant, Class::DescendantQuote], &id.to_hex());
    }
    for address in &threads.addresses {
        let classes = [Class::DescendantAddress, Class::DescendantQuote];
        add(&classes, &address.to_string());
    }
    Wanted { values, identifier }
}

#[cfg(test)]
mod tests {
    use grip_nostr::{PublicKey, RepoAddr};
    use grip_types::Identifier;
    use nostr::prelude::Keys;

    use super::*;

    fn repository(
        owner: PublicKey,
        name: &str,
        is_served: bool,
        relays: &[&str],
    ) -> FollowedRepository {
        FollowedRepository {
            addr: RepoAddr::new(owner, Identifier::parse(name).unwrap()),
            is_served,
            members: vec![owner],
            relays: relays.iter().map(|relay| (*relay).to_owned()).collect(),
            relays_of_invited: Vec::new(),
            clones: Vec::new(),
            state: None,
        }
    }

    fn plans(
        repositories: &[FollowedRepository],
        bootstrap: &[RelayUrl],
        max_relays: usize,
    ) -> BTreeMap<RelayUrl, Arc<Plan>> {
        plans_with(repositories, bootstrap, Vec::new(), max_relays)
    }

    fn plans_with(
        repositories: &[FollowedRepository],
        bootstrap: &[RelayUrl],
        wishes: Vec<(RelayUrl, Plan)>,
        max_relays: usize,
    ) -> BTreeMap<RelayUrl, Arc<Plan>> {
        let before = BTreeMap::new();
        plans_after(&before, repositories, bootstrap, wishes, max_relays)
    }

    fn plans_after(
        before: &BTreeMap<RelayUrl, Arc<Plan>>,
        repositories: &[FollowedRepository],
        bootstrap: &[RelayUrl],
        wishes: Vec<(RelayUrl, Plan)>,
        max_relays: usize,
    ) -> BTreeMap<RelayUrl, Arc<Plan>> {
        let is_ours = |url: &RelayUrl| url.as_str() != "wss://ours.example";
        let root = EventId::from_byte_array([7; 32]);
        let threads = |_: &FollowedRepository| {
            Rc::new(Threads {
                roots: vec![root],
                ..Threads::default()
            })
        };
        let rules = Rules {
            bootstrap,
            may_follow: &is_ours,
            is_configured: &|url| url.as_str() == "wss://index.example",
            max_relays,
            hour: 0,
        };
        plan(repositories, threads, wishes, before, &rules)
    }

    fn classes(plan: &Plan) -> Vec<Class> {
        plan.values.keys().copied().collect()
    }

    #[test]
    fn g02_5_held_announcements_are_followed_for_states_and_served_ones_for_all() {
        let owner = Keys::generate().public_key();
        let held = repository(
            owner,
            "a",
            false,
            &["wss://one.example/", "wss://ours.example"],
        );
        let served = repository(owner, "b", true, &["wss://two.example"]);
        let plans = plans(&[held, served], &[], 10);
        let of = |url: &str| &plans[&RelayUrl::parse(url).unwrap()];
        assert_eq!(plans.len(), 2);
        assert_eq!(
            classes(of("wss://one.example")),
            [Class::Announcements, Class::Held]
        );
        assert_eq!(
            classes(of("wss://two.example")),
            [
                Class::Announcements,
                Class::States,
                Class::Address,
                Class::Event,
                Class::Vanish,
                Class::RootEvent,
                Class::RootAddress,
                Class::Quote
            ]
        );
    }

    #[test]
    fn g02_10_relays_of_invited_keys_are_followed_for_announcements_and_states_alone() {
        let owner = Keys::generate().public_key();
        let mut served = repository(owner, "b", true, &["wss://both.example"]);
        let of_invited = ["wss://invited.example", "wss://both.example"];
        served.relays_of_invited = of_invited.map(str::to_owned).to_vec();
        let many = (0..30).map(|n| format!("wss://i{n}.example"));
        let mut held = repository(owner, "c", false, &[]);
        held.relays_of_invited = many.collect();
        let plans = plans(&[served, held], &[], 100);
        let of = |url: &str| classes(&plans[&RelayUrl::parse(url).unwrap()]);
        assert_eq!(
            of("wss://invited.example"),
            [Class::Announcements, Class::Held]
        );
        assert!(of("wss://both.example").contains(&Class::Address));
        assert_eq!(plans.len(), 2 + MAX_RELAYS_OF_ONE);
    }

    #[test]
    fn g03_11_relays_of_lists_come_after_those_of_announcements() {
        let owner = Keys::generate().public_key();
        let served = repository(owner, "b", true, &["wss://two.example"]);
        let mut wish = Plan::default();
        wish.add(Class::Profiles, &"ab".into());
        let wishes = [
            "wss://two.example",
            "wss://list.example",
            "wss://more.example",
        ]
        .map(|url| (RelayUrl::parse(url).unwrap(), wish.clone()));
        let plans = plans_with(&[served], &[], wishes.to_vec(), 2);
        let of = |url: &str| plans.get(&RelayUrl::parse(url).unwrap());
        assert!(
            of("wss://two.example")
                .unwrap()
                .values
                .contains_key(&Class::Profiles)
        );
        assert_eq!(
            classes(of("wss://list.example").unwrap()),
            [Class::Profiles]
        );
        assert!(of("wss://more.example").is_none());
    }

    #[test]
    fn relays_that_the_operator_configured_have_places_beside_those_that_events_name() {
        let all: Vec<FollowedRepository> = (0..9)
            .map(|n| {
                let url = format!("wss://r{n}.stranger.example");
                repository(Keys::generate().public_key(), "x", true, &[&url])
            })
            .collect();
        let [bootstrap, index, list] = ["bootstrap", "index", "list"]
            .map(|name| RelayUrl::parse(&format!("wss://{name}.example")).unwrap());
        let wishes = [&index, &list].map(|url| (url.clone(), Plan::default()));
        let plans = plans_with(&all, std::slice::from_ref(&bootstrap), wishes.to_vec(), 3);
        assert!(plans.contains_key(&bootstrap) && plans.contains_key(&index));
        assert!(!plans.contains_key(&list));
        assert_eq!(plans.len(), 5, "strangers have the three that there are");
    }

    #[test]
    fn relays_of_strangers_do_not_push_out_those_of_served_owners() {
        let mut all: Vec<FollowedRepository> = (0..50)
            .map(|n| {
                let url = format!("wss://r{n}.stranger.example");
                repository(Keys::generate().public_key(), "x", false, &[&url])
            })
            .collect();
        // One key with many repositories is one voice.
        let spammer = Keys::generate().public_key();
        all.extend(
            (0..50).map(|n| repository(spammer, &format!("s{n}"), true, &["wss://spam.example"])),
        );
        for _ in 0..2 {
            let owner = Keys::generate().public_key();
            all.push(repository(owner, "y", true, &["wss://honest.example"]));
        }
        let plans = plans(&all, &[], 1);
        assert_eq!(
            plans.keys().map(RelayUrl::as_str).collect::<Vec<_>>(),
            ["wss://honest.example"]
        );
    }

    /// Whose share the held announcements are that one relay is asked about: each owner's alike.
    #[test]
    fn the_many_held_announcements_of_one_owner_keep_out_nobody_elses() {
        let relay = ["wss://relay.example"];
        let spammer = Keys::generate().public_key();
        let named = |owner, name: &str, is_served| repository(owner, name, is_served, &relay);
        let mut all: Vec<FollowedRepository> = (0..2 * MAX_HELD_OF_ONE)
            .map(|n| named(spammer, &format!("s{n}"), false))
            .collect();
        all.push(named(Keys::generate().public_key(), "honest", false));
        let url = RelayUrl::parse(relay[0]).unwrap();
        for bootstrap in [&[][..], std::slice::from_ref(&url)] {
            let plans = plans(&all, bootstrap, 10);
            let held = &plans[&url].values[&Class::Held];
            assert!(held.contains("honest"), "{} held", held.len());
            assert!(held.len() >= MAX_HELD_OF_ONE);
        }
        // Made-up keys with one each: who has something served here comes first.
        let mut all: Vec<FollowedRepository> = (0..2 * MAX_HELD_OF_ONE)
            .map(|n| named(Keys::generate().public_key(), &format!("s{n}"), false))
            .collect();
        let owner = Keys::generate().public_key();
        all.push(named(owner, "served", true));
        all.push(named(owner, "honest", false));
        let plans = plans(&all, &[], 10);
        let held = &plans[&url].values[&Class::Held];
        assert!(held.contains("honest"));
        assert_eq!(held.len(), MAX_HELD_OF_ONE);
    }

    /// Many keys with one held announcement each leave out about as many, and others in each hour.
    #[test]
    fn everybody_has_a_turn_among_the_held_announcements_of_a_relay() {
        let all: Vec<FollowedRepository> = (0..2 * MAX_HELD_OF_ONE)
            .map(|n| repository(Keys::generate().public_key(), &format!("s{n}"), false, &[]))
            .collect();
        let places = || (0..all.len()).collect::<Vec<_>>();
        let first = share_of_held(places(), &all, 0);
        assert_eq!(
            first,
            share_of_held(places(), &all, 0),
            "the same all the hour"
        );
        let had_a_turn: HashSet<usize> = (0..60)
            .flat_map(|hour| share_of_held(places(), &all, hour))
            .collect();
        assert_eq!(had_a_turn.len(), all.len());
    }

    /// What has not changed is kept once, however often it is looked at.
    #[test]
    fn a_later_look_shares_the_values_of_the_plans_before_it() {
        let owner = Keys::generate().public_key();
        let relays = ["wss://one.example", "wss://two.example"];
        let mut all = vec![repository(owner, "x", true, &relays)];
        let before = plans(&all, &[], 10);
        all.push(repository(owner, "y", true, &relays[..1]));
        let after = plans_after(&before, &all, &[], Vec::new(), 10);
        for relay in relays {
            let url = RelayUrl::parse(relay).unwrap();
            for class in [Class::States, Class::Address, Class::Event, Class::Quote] {
                for value in before[&url].values[&class].iter() {
                    let again = after[&url].get(class, value).unwrap();
                    assert!(Arc::ptr_eq(value, again), "{class:?} {value}");
                }
            }
        }
    }

    /// The voice of an owner is one, however many relays they name.
    #[test]
    fn an_owner_who_names_many_relays_pushes_out_nobody() {
        let spammer = Keys::generate().public_key();
        let mut all: Vec<FollowedRepository> = (0..50)
            .map(|n| {
                let urls: Vec<String> = (0..8).map(|m| format!("wss://s{n}-{m}.example")).collect();
                let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
                repository(spammer, &format!("s{n}"), true, &urls)
            })
            .collect();
        let honest = ["wss://a.example", "wss://b.example"];
        for url in honest {
            all.push(repository(Keys::generate().public_key(), "y", true, &[url]));
        }
        let plans = plans(&all, &[], 4);
        assert_eq!(plans.len(), 4);
        for url in honest {
            assert!(plans.contains_key(&RelayUrl::parse(url).unwrap()), "{url}");
        }
    }

    #[test]
    fn one_repository_names_a_few_relays_and_the_bootstrap_relay_is_always_there() {
        let many: Vec<String> = (0..30).map(|n| format!("wss://r{n}.example")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let owner = Keys::generate().public_key();
        let bootstrap = [RelayUrl::parse("wss://first.example").unwrap()];
        let plans = plans(&[repository(owner, "x", true, &many)], &bootstrap, 100);
        assert_eq!(plans.len(), MAX_RELAYS_OF_ONE + 1);
        assert_eq!(
            classes(&plans[&bootstrap[0]]),
            [Class::Announcements, Class::States]
        );
    }
}
