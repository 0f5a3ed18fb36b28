//! The rules of the model: what git has to show by what is served and held.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use nostr::prelude::Event;

use crate::until_ok;

use super::{
    Repository, Status, Subject,
    step::{BRANCHES, PEOPLE, Step},
    story::{Refs, Said, State, Story, What, newer, nostr_ref},
};

/// What counts at one moment.
struct Moment<'a> {
    /// Whose announcement is served; a newer one of theirs may wait.
    has_served: BTreeSet<usize>,
    /// The newest announcement of each that is served or held, and whether it is served.
    announced: BTreeMap<usize, (&'a Said, bool)>,
    served: Vec<(&'a Said, &'a State)>,
    held: Vec<(&'a Said, &'a State)>,
    requests: Vec<Request<'a>>,
}

/// A pull request, wherever it is.
struct Request<'a> {
    said: &'a Said,
    status: Status,
    to: usize,
    tip: &'a str,
    /// Where a tip was pushed that may wait for it, and which.
    pushed: BTreeMap<usize, &'a BTreeSet<String>>,
}

impl<S: Subject> Story<'_, S> {
    /// Compares what the node shows after `step` with what the model says.
    pub(super) async fn check(&mut self, step: &Step) -> Result<()> {
        let last = if self.node.is_at_rest() {
            self.look(step).await
        } else {
            until_ok("relay and git agree", async || {
                self.look(step).await.map(Some)
            })
            .await
        };
        let statuses = last.with_context(|| format!("after {step:?}"))?;
        for (said, status) in self.said.iter_mut().zip(statuses) {
            match status {
                _ if status == said.was => {}
                Status::Held => self.tally.held += 1,
                Status::Served => self.tally.served += 1,
                Status::Gone => {}
            }
            said.was = status;
            said.is_taken = false;
        }
        self.owed.clear();
        Ok(())
    }

    async fn look(&mut self, step: &Step) -> Result<Vec<Status>> {
        let found = self.node.audit(&self.name).await?;
        ensure!(found.is_empty(), "the node finds {found:#?}");
        let events: Vec<&Event> = self.said.iter().map(|said| &said.event).collect();
        let statuses = self.node.statuses(&events).await?;
        let mut repositories = Vec::new();
        for who in 0..PEOPLE {
            let owner = &self.people[who];
            repositories.push(self.node.repository(owner, &self.name).await?);
        }
        self.check_endings(&statuses)?;
        self.check_departures(&statuses)?;
        self.check_losses(step, &statuses)?;
        self.check_progress(&statuses)?;
        let moment = self.moment(&statuses);
        for (who, repository) in repositories.iter().enumerate() {
            let checked = moment.check_repository(who, repository.as_ref());
            checked.with_context(|| format!("the repository of {who}"))?;
        }
        Ok(statuses)
    }

    /// What its author took back, the operator banned, or time ended is nowhere.
    fn check_endings(&self, statuses: &[Status]) -> Result<()> {
        for (nth, (said, status)) in self.said.iter().zip(statuses).enumerate() {
            let is_banned = self.banned.contains(&said.who);
            ensure!(
                *status == Status::Gone || !is_banned,
                "event {nth} of somebody banned is {status:?}"
            );
            ensure!(
                *status == Status::Gone || !self.is_taken_back(said),
                "event {nth} is {status:?}, and its author took it back"
            );
            ensure!(
                *status == Status::Gone || !said.is_over,
                "event {nth} is {status:?}, and its time is over"
            );
        }
        Ok(())
    }

    /// No announcement brings back whose author has left by a later one. One that was served then is
    /// shown for a day.
    fn check_departures(&self, statuses: &[Status]) -> Result<()> {
        for (nth, (said, status)) in self.said.iter().zip(statuses).enumerate() {
            let left = self.left.get(&said.who).filter(|_| said.lists_us());
            let is_over = left.is_some_and(|left| newer(left, &said.event));
            let is_leaving = said.was == Status::Served && *status == Status::Served;
            ensure!(
                *status == Status::Gone || !is_over || is_leaving,
                "announcement {nth} was {:?} and is {status:?}, and its author has left",
                said.was
            );
        }
        Ok(())
    }

    /// What a push brought all data of is served, or a newer state that had expired, if the push brought all
    /// data of that one too.
    fn check_progress(&self, statuses: &[Status]) -> Result<()> {
        for nth in &self.owed {
            let (status, owed) = (statuses[*nth], &self.said[*nth].event);
            let is_overtaken = self.said.iter().zip(statuses).any(|(other, status)| {
                matches!(other.what, What::State(_))
                    && *status == Status::Served
                    && newer(&other.event, owed)
            });
            ensure!(
                status == Status::Served || is_overtaken,
                "all that event {nth} waits for was pushed, and it is {status:?}"
            );
        }
        Ok(())
    }

    /// What was taken is there, and what was there still is, unless something newer is in its place.
    fn check_losses(&self, step: &Step, statuses: &[Status]) -> Result<()> {
        let all = || self.said.iter().zip(statuses);
        for (nth, (said, status)) in all().enumerate() {
            let was_there = said.was != Status::Gone && !step.takes_away();
            if *status != Status::Gone || !(was_there || said.is_taken) {
                continue;
            }
            let is_replaced = all().any(|(other, status)| {
                // A state that a newer one of another maintainer has overtaken waits for nothing.
                let is_version = other.who == said.who && other.event.kind == said.event.kind;
                let is_overtaken =
                    matches!((&said.what, &other.what), (What::State(_), What::State(_)))
                        && *status == Status::Served
                        && said.was != Status::Served;
                newer(&other.event, &said.event)
                    && (is_overtaken || is_version && *status != Status::Gone)
            });
            ensure!(
                is_replaced || said.is_over,
                "event {nth} was {:?}, the node said that it took it ({}), and it is gone",
                said.was,
                said.is_taken
            );
        }
        Ok(())
    }

    fn moment(&self, statuses: &[Status]) -> Moment<'_> {
        let mut moment = Moment {
            announced: BTreeMap::new(),
            has_served: BTreeSet::new(),
            served: Vec::new(),
            held: Vec::new(),
            requests: Vec::new(),
        };
        for (said, status) in self.said.iter().zip(statuses) {
            if let What::Request { to, tip } = &said.what {
                moment
                    .requests
                    .push(self.request_at(said, *status, *to, tip));
                continue;
            }
            let is_served = match status {
                Status::Served => true,
                Status::Held => false,
                Status::Gone => continue,
            };
            match &said.what {
                What::Announcement { .. } => {
                    moment.has_served.extend(is_served.then_some(said.who));
                    let known = moment.announced.get(&said.who);
                    if known.is_none_or(|(known, _)| newer(&said.event, &known.event)) {
                        moment.announced.insert(said.who, (said, is_served));
                    }
                }
                What::State(state) if is_served => moment.served.push((said, state)),
                What::State(state) => moment.held.push((said, state)),
                What::Request { .. } => {}
            }
        }
        moment
    }

    fn request_at<'s>(
        &'s self,
        said: &'s Said,
        status: Status,
        to: usize,
        tip: &'s str,
    ) -> Request<'s> {
        let pushed = (0..PEOPLE).filter_map(|owner| {
            let tips = self.pushed_tips.get(&(owner, said.event.id))?;
            Some((owner, tips))
        });
        Request {
            said,
            status,
            to,
            tip,
            pushed: pushed.collect(),
        }
    }
}

impl Moment<'_> {
    fn check_repository(&self, who: usize, repository: Option<&Repository>) -> Result<()> {
        let Some((said, is_served)) = self.announced.get(&who) else {
            ensure!(repository.is_none(), "it is there and nothing announces it");
            return Ok(());
        };
        let What::Announcement { lists_us, .. } = said.what else {
            unreachable!("only announcements are among them");
        };
        if !lists_us {
            return Ok(());
        }
        let Some(repository) = repository else {
            // Hidden until a state brings it back.
            ensure!(!is_served, "it is announced and not there");
            return Ok(());
        };
        ensure!(
            repository.is_served == *is_served,
            "its announcement is served: {is_served}, the repository: {}",
            repository.is_served
        );
        self.check_refs(who, *is_served, &repository.refs)
    }

    /// Compares all refs that are shown, and HEAD.
    fn check_refs(&self, who: usize, is_served: bool, shown: &Refs) -> Result<()> {
        let set = self.maintainers(who);
        let by_members = self
            .served
            .iter()
            .filter(|(said, _)| set.contains(&said.who));
        let effective = by_members.reduce(|best, other| {
            if newer(&other.0.event, &best.0.event) {
                other
            } else {
                best
            }
        });
        let pushing = self.held.iter().filter(|(said, _)| {
            let is_newer = effective.is_none_or(|(e, _)| newer(&said.event, &e.event));
            set.contains(&said.who) && is_newer
        });
        let pushing: Vec<&State> = pushing.map(|(_, state)| *state).collect();
        let effective = effective.map(|(_, state)| *state);
        for name in BRANCHES {
            let is = shown.get(name);
            let says = effective.and_then(|state| state.refs.get(name));
            let pushed = pushing.iter().any(|state| state.refs.get(name) == is);
            if is != says && !pushed {
                bail!("{name} is {is:?} and has to be {says:?}");
            }
        }
        check_head(effective, &pushing, shown)?;
        self.check_tips(who, &set, shown)?;
        ensure!(
            !is_served || effective.is_some(),
            "it is served, and no state speaks for it"
        );
        ensure!(
            is_served || effective.is_none_or(|state| state.refs.is_empty()),
            "a state speaks for it, and it is not served"
        );
        Ok(())
    }

    /// The tip of a served pull request is in every repository that has the one it is for among its
    /// maintainers'; one that waits for its event is where it was pushed; there is no other ref.
    fn check_tips(&self, who: usize, set: &BTreeSet<usize>, shown: &Refs) -> Result<()> {
        let is_other = |name: &&String| *name != "HEAD" && !BRANCHES.contains(&name.as_str());
        let mut others: BTreeSet<&String> = shown.keys().filter(is_other).collect();
        for request in &self.requests {
            let name = nostr_ref(&request.said.event.id);
            let is = shown.get(&name);
            others.remove(&name);
            let is_for_it = set.contains(&request.to) && self.has_served.contains(&request.to);
            let is_right = match request.status {
                Status::Served => is.map(String::as_str) == is_for_it.then_some(request.tip),
                Status::Held => is.is_none(),
                Status::Gone => is.is_none_or(|is| {
                    let pushed = request.pushed.get(&who);
                    pushed.is_some_and(|pushed| pushed.contains(is))
                }),
            };
            ensure!(
                is_right,
                "{name} is {is:?}; its event is {:?}, at {}, and for it: {is_for_it}",
                request.status,
                request.tip
            );
        }
        ensure!(others.is_empty(), "nothing speaks for {others:?}");
        Ok(())
    }

    /// The owner, and everybody whom a maintainer lists and who lists one in return.
    fn maintainers(&self, owner: usize) -> BTreeSet<usize> {
        let listed = |who: usize| match self.announced.get(&who).map(|(said, _)| &said.what) {
            Some(What::Announcement { maintainers, .. }) => maintainers.clone(),
            _ => Vec::new(),
        };
        let mut set = BTreeSet::from([owner]);
        loop {
            let is_new = |who: &usize| {
                let is_listed = set.iter().any(|member| listed(*member).contains(who));
                let answers = listed(*who).iter().any(|it| it != who && set.contains(it));
                !set.contains(who) && is_listed && answers
            };
            let new: Vec<usize> = (0..PEOPLE).filter(is_new).collect();
            if new.is_empty() {
                return set;
            }
            set.extend(new);
        }
    }
}

/// HEAD is where the effective state says as soon as its branch is there, or where a state says that is
/// being pushed; without either it is at any branch that is there.
fn check_head(effective: Option<&State>, pushing: &[&State], shown: &Refs) -> Result<()> {
    let is = shown.get("HEAD").map(String::as_str);
    let arrived = |state: &&State| {
        let head = state.head?;
        (shown.get(head) == state.refs.get(head)).then_some(head)
    };
    let says = effective.and_then(|state| arrived(&state));
    let is_pushed = is.is_some() && pushing.iter().any(|state| arrived(state) == is);
    let is_right = match says {
        Some(_) => is == says,
        None => match is {
            Some(is) => shown.contains_key(is),
            None => !BRANCHES.iter().any(|name| shown.contains_key(*name)),
        },
    };
    ensure!(
        is_right || is_pushed,
        "HEAD is {is:?} and has to be {says:?}"
    );
    Ok(())
}
