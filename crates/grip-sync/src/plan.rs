//! The plan of an attempt: which URL is asked for which of the missing objects. Pure.

use std::collections::{BTreeSet, HashMap};

use grip_git::DiskUser;
use grip_types::{Domain, Oid, Owner};
use url::Url;

use grip_purgatory::Need;

/// Most URLs of one identifier in one attempt. Beyond it the later URLs of the longest lists are
/// left out, never the first of any event.
const MAX_URLS: usize = 1024;
/// Most objects of one target, and of all targets of an attempt together. What is left out is
/// still missing at the next attempt.
const MAX_WANTS: usize = 20_000;
const MAX_WANTS_IN_ALL: usize = 200_000;
/// Authors of one target that are told apart.
const MAX_OWNERS: usize = 16;

/// A URL and what it is asked for: the objects of those events alone that list it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) url: Url,
    pub(crate) domain: Domain,
    pub(crate) wants: BTreeSet<Oid>,
    /// Those of them that states want.
    pub(crate) states: BTreeSet<Oid>,
    /// Authors of the events that want them.
    pub(crate) owners: Vec<Owner>,
}

impl Target {
    /// Those who pay for what comes: strangers among the authors, if there are any. So nobody is
    /// charged for what others put beside his own events.
    pub(crate) fn payers(&self) -> Vec<Owner> {
        let strangers = self.owners.iter().filter(|owner| !owner.is_served);
        let strangers: Vec<Owner> = strangers.copied().collect();
        if strangers.is_empty() {
            return self.owners.clone();
        }
        strangers
    }

    /// Whose bytes they are on the disk: a maintainer's if any of the authors is one, so that nobody's fetch
    /// is put off for what others put beside his own events.
    pub(crate) fn disk_user(&self) -> DiskUser {
        if self.owners.iter().any(|owner| owner.is_served) {
            DiskUser::Maintainer
        } else {
            DiskUser::Stranger
        }
    }

    fn add_owner(&mut self, owner: Owner) {
        if self.owners.len() < MAX_OWNERS && !self.owners.contains(&owner) {
            self.owners.push(owner);
        }
    }
}

/// Whose share an event uses.
pub(crate) fn owner_of(need: &Need) -> Owner {
    Owner {
        key: need.author.to_bytes(),
        is_served: need.is_served,
    }
}

/// All targets of an identifier, each URL once, in the order in which they are tried: the first
/// URL of each event, then the second of each, and so on. So an event with a long list of dead
/// hosts does not hold up the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    targets: Vec<Target>,
}

impl Plan {
    pub(crate) fn of(needs: &[Need]) -> Self {
        let mut plan = Self::default();
        let mut places: HashMap<&Url, usize> = HashMap::with_capacity(needs.len());
        let longest = needs.iter().map(|need| need.urls.len()).max().unwrap_or(0);
        for rank in 0..longest {
            for need in needs {
                let Some(url) = need.urls.get(rank) else {
                    continue;
                };
                if places.len() >= MAX_URLS || places.contains_key(url) {
                    continue;
                }
                if let Some(domain) = Domain::of(url) {
                    places.insert(url, plan.targets.len());
                    plan.targets.push(Target {
                        url: url.clone(),
                        domain,
                        wants: BTreeSet::new(),
                        states: BTreeSet::new(),
                        owners: Vec::new(),
                    });
                }
            }
        }
        plan.share_out(needs, &places);
        plan
    }

    /// Says what each target is asked for. All have the same room, and the events that lack
    /// least go first: one with very many objects does not keep the others out.
    fn share_out(&mut self, needs: &[Need], places: &HashMap<&Url, usize>) {
        let share = MAX_WANTS_IN_ALL / self.targets.len().max(1);
        let share = share.min(MAX_WANTS);
        let mut needs: Vec<&Need> = needs.iter().collect();
        needs.sort_by_key(|need| need.oids.len());
        for need in needs {
            for place in need.urls.iter().filter_map(|url| places.get(url)) {
                self.targets[*place].add_owner(owner_of(need));
                let Target { wants, states, .. } = &mut self.targets[*place];
                let room = share.saturating_sub(wants.len());
                let asked = need.oids.iter().take(room);
                if need.is_state {
                    states.extend(asked.clone());
                }
                wants.extend(asked);
            }
        }
    }

    pub(crate) fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The targets with those first whose host has failed least recently.
    pub(crate) fn healthy_first(&self, failures: impl Fn(&Domain) -> u32) -> Vec<&Target> {
        let mut targets: Vec<_> = self.targets.iter().collect();
        targets.sort_by_cached_key(|target| failures(&target.domain));
        targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{author, need, oid, oids, state, url};

    fn urls(plan: &Plan) -> Vec<&str> {
        plan.targets
            .iter()
            .map(|target| target.url.as_str())
            .collect()
    }

    #[test]
    fn a_url_is_asked_only_for_the_objects_of_the_events_that_list_it() {
        let needs = [
            need(&[1, 2], &["https://a.example/x", "https://both.example/x"]),
            need(&[3], &["https://both.example/x", "https://b.example/x"]),
        ];
        let plan = Plan::of(&needs);
        let wants: Vec<_> = plan
            .targets()
            .iter()
            .map(|target| (target.domain.as_str(), target.wants.clone()))
            .collect();
        assert_eq!(
            wants,
            [
                ("a.example", [oid(1), oid(2)].into()),
                ("both.example", [oid(1), oid(2), oid(3)].into()),
                ("b.example", [oid(3)].into()),
            ]
        );
    }

    #[test]
    fn a_target_knows_what_states_want_of_it() {
        let one = ["https://a.example/"];
        let plan = Plan::of(&[need(&[1, 2], &one), state(&[2, 3], &one)]);
        let target = &plan.targets()[0];
        assert_eq!(
            (&target.wants, &target.states),
            (&oids(&[1, 2, 3]), &oids(&[2, 3]))
        );
    }

    #[test]
    fn strangers_pay_for_what_they_want_beside_others() {
        let one = ["https://a.example/"];
        let (mut served, mut stranger) = (state(&[1], &one), need(&[2], &one));
        served.is_served = true;
        stranger.author = author(2);
        let plan = Plan::of(&[served.clone(), stranger.clone()]);
        assert_eq!(plan.targets()[0].owners.len(), 2);
        assert_eq!(plan.targets()[0].payers(), [owner_of(&stranger)]);
        let plan = Plan::of(&[served.clone(), served.clone()]);
        assert_eq!(plan.targets()[0].payers(), [owner_of(&served)]);
    }

    #[test]
    fn each_event_gets_its_first_url_before_any_gets_its_second() {
        let needs = [
            need(&[1], &["https://a1.example/", "https://a2.example/"]),
            need(&[2], &["https://b1.example/"]),
        ];
        assert_eq!(
            urls(&Plan::of(&needs)),
            [
                "https://a1.example/",
                "https://b1.example/",
                "https://a2.example/"
            ]
        );
    }

    #[test]
    fn hosts_without_failures_come_first_and_the_rest_keeps_its_order() {
        let needs = [need(
            &[1],
            &[
                "https://bad.example/",
                "https://b.example/",
                "https://a.example/",
            ],
        )];
        let plan = Plan::of(&needs);
        let failures = |domain: &Domain| u32::from(domain.as_str() == "bad.example");
        let order = plan.healthy_first(failures);
        let order: Vec<_> = order.iter().map(|target| target.url.as_str()).collect();
        assert_eq!(
            order,
            [
                "https://b.example/",
                "https://a.example/",
                "https://bad.example/"
            ]
        );
    }

    #[test]
    fn a_flood_of_urls_is_cut_but_not_the_first_of_any_event() {
        let many = |name: &str| -> Vec<String> {
            (0..MAX_URLS)
                .map(|n| format!("https://{name}.example/{n}"))
                .collect()
        };
        let flood = Need {
            urls: many("flood").iter().map(|u| url(u)).collect(),
            ..need(&[1], &[])
        };
        let plan = Plan::of(&[flood, need(&[2], &["https://quiet.example/"])]);
        assert_eq!(plan.targets().len(), MAX_URLS);
        assert_eq!(plan.targets()[1].domain.as_str(), "quiet.example");
    }

    #[test]
    fn very_many_objects_are_asked_for_in_parts_and_keep_no_other_event_out() {
        let big: Vec<u64> = (0..MAX_WANTS as u64 + 5_000).collect();
        let one = ["https://a.example/"];
        let plan = Plan::of(&[need(&big, &one), need(&[1_000_000], &one)]);
        let wants = &plan.targets()[0].wants;
        assert_eq!(wants.len(), MAX_WANTS);
        assert!(wants.contains(&oid(1_000_000)));

        let many: Vec<String> = (0..50).map(|n| format!("https://h{n}.example/")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let plan = Plan::of(&[need(&big, &many), need(&[1_000_000], &many)]);
        let all: usize = plan.targets().iter().map(|target| target.wants.len()).sum();
        assert_eq!(all, MAX_WANTS_IN_ALL);
        let mut targets = plan.targets().iter();
        assert!(targets.all(|target| target.wants.contains(&oid(1_000_000))));
    }

    #[test]
    fn urls_without_a_host_are_left_out() {
        let needs = [need(&[1], &["data:text/plain,x", "https://a.example/"])];
        assert_eq!(urls(&Plan::of(&needs)), ["https://a.example/"]);
    }
}
