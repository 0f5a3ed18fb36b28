//! A story as it is played: what was said, and what was taken back.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use anyhow::{Result, ensure};
use nostr::prelude::{Event, EventId, Timestamp};

use super::{
    Fixture, Restart, Status, Subject,
    step::{BRANCHES, PEOPLE, Step, Tips},
};
use crate::{Author, events::tag, until_true, wire};

/// Where another server is, for announcements that leave.
const ELSEWHERE: &str = "other.example.com";

pub(super) type Refs = BTreeMap<String, String>;

/// What was said, and by whom.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) event: Event,
    pub(super) who: usize,
    pub(super) what: What,
    /// Its own time is over.
    pub(super) is_over: bool,
    /// Where it was after the step before.
    pub(super) was: Status,
    /// The node has just said that it took it.
    pub(super) is_taken: bool,
}

#[derive(Debug)]
pub(super) enum What {
    Announcement {
        lists_us: bool,
        maintainers: Vec<usize>,
    },
    State(State),
    /// A pull request to somebody.
    Request {
        to: usize,
        tip: String,
    },
}

/// What a state says.
#[derive(Debug)]
pub(super) struct State {
    pub(super) refs: Refs,
    /// The branch of HEAD, if the state names that branch too.
    pub(super) head: Option<&'static str>,
}

impl Said {
    /// Says whether it is an announcement of a repository on this server.
    pub(super) fn lists_us(&self) -> bool {
        matches!(self.what, What::Announcement { lists_us: true, .. })
    }
}

/// What an author has taken back, with success: it is never served or held again.
enum TakenBack {
    Event(EventId),
    Address(usize, u16, Timestamp),
    All(usize, Timestamp),
}

impl TakenBack {
    fn covers(&self, said: &Said) -> bool {
        let event = &said.event;
        match self {
            Self::Event(id) => event.id == *id,
            Self::Address(who, kind, until) => {
                said.who == *who && event.kind.as_u16() == *kind && event.created_at <= *until
            }
            Self::All(who, until) => said.who == *who && event.created_at <= *until,
        }
    }
}

/// What stories came to: in one in which nothing is served, nothing can go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub steps: u64,
    /// Those that the node was sent.
    pub pushes: u64,
    /// The same of the tips of pull requests.
    pub tips: u64,
    /// Events that came to be held, and served.
    pub held: u64,
    pub served: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.steps += other.steps;
        self.pushes += other.pushes;
        self.tips += other.tips;
        self.held += other.held;
        self.served += other.served;
    }
}

pub(super) struct Story<'a, S> {
    pub(super) node: &'a mut S,
    fixture: &'a Fixture,
    pub(super) name: String,
    pub(super) people: Vec<Author>,
    pub(super) banned: BTreeSet<usize>,
    pub(super) said: Vec<Said>,
    taken_back: Vec<TakenBack>,
    /// The announcement by which each has left, if they have.
    pub(super) left: BTreeMap<usize, Event>,
    /// Where the tips of pull requests were pushed that may wait for their event: the repository's owner,
    /// the event, and the commits.
    pub(super) pushed_tips: BTreeMap<(usize, EventId), BTreeSet<String>>,
    /// Events that have to be served after the step that is played.
    pub(super) owed: Vec<usize>,
    pub(super) tally: Tally,
    /// Seconds since the story began: nothing happens in the same one, unless it is meant to.
    clock: u64,
    began: u64,
}

impl<'a, S: Subject> Story<'a, S> {
    pub(super) fn new(node: &'a mut S, fixture: &'a Fixture, name: String) -> Self {
        Self {
            node,
            fixture,
            name,
            people: (0..PEOPLE).map(|_| Author::new()).collect(),
            banned: BTreeSet::new(),
            said: Vec::new(),
            taken_back: Vec::new(),
            left: BTreeMap::new(),
            pushed_tips: BTreeMap::new(),
            owed: Vec::new(),
            tally: Tally::default(),
            clock: 0,
            began: Timestamp::now().as_secs() - 1_000,
        }
    }

    /// Leaves the node as it was for the next story.
    pub(super) async fn end(mut self) -> Result<Tally> {
        if !self.banned.is_empty() {
            self.banned.clear();
            self.ban().await?;
        }
        Ok(self.tally)
    }

    pub(super) fn is_taken_back(&self, said: &Said) -> bool {
        self.taken_back.iter().any(|it| it.covers(said))
    }

    fn now(&mut self) -> Timestamp {
        self.clock += 1;
        self.time()
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_secs(self.began + self.clock)
    }

    pub(super) async fn play(&mut self, step: &Step) -> Result<()> {
        self.tally.steps += 1;
        match step {
            Step::Announce(who, maintainers) => {
                let server = self.node.service();
                let is_taken = self.announce(*who, &server, maintainers, None).await?;
                ensure!(
                    is_taken || self.banned.contains(who),
                    "a new announcement that lists this server is refused"
                );
            }
            Step::Leave(who, maintainers) => {
                let had_repository = self.announced(*who).is_some_and(Said::lists_us);
                self.announce(*who, ELSEWHERE, maintainers, None).await?;
                if had_repository {
                    self.note_departure(*who);
                }
            }
            Step::Replay(nth) => {
                let all = self.said.iter();
                let mut old = all.filter(|it| matches!(it.what, What::Announcement { .. }));
                if let Some(said) = old.nth(*nth) {
                    self.node.send(&said.event).await?;
                }
            }
            Step::State(who, at) => {
                let time = self.now();
                let is_owner = self.is_host_of(*who);
                let is_taken = self.state(*who, at, time, None).await?;
                ensure!(
                    is_taken || !is_owner,
                    "a new state of the owner of a repository is refused"
                );
            }
            Step::Tie(who, at) => {
                let time = self.time();
                self.state(*who, at, time, None).await?;
            }
            Step::Push(to, by, which) => self.push(*to, *by, which).await?,
            Step::Fetch(commit) => self.fetch(*commit).await?,
            Step::DeleteState(who) => self.delete(*who, 30618).await?,
            Step::DeleteAnnouncement(who) => self.delete(*who, 30617).await?,
            Step::DeleteEvent(nth) => self.delete_event(*nth).await?,
            Step::Vanish(who) => {
                let at = self.now();
                let event =
                    self.people[*who].sign_at(62, "", vec![tag(["relay", "ALL_RELAYS"])], at);
                if self.node.send(&event).await?.accepted {
                    self.taken_back.push(TakenBack::All(*who, at));
                }
            }
            Step::Arrive(nth) => {
                if let Some(said) = self.said.get(*nth) {
                    self.node.arrive(&said.event).await?;
                }
            }
            Step::Withhold(who, at) => {
                let time = self.now();
                let (event, state) = self.sign_state(*who, at, time, None);
                self.say(event, *who, What::State(state), false);
            }
            Step::Expire(who, at) => self.expire(*who, at.as_ref()).await?,
            Step::DatabaseAway(who, at) => {
                self.node.lose_database().await?;
                self.claim_and_push(*who, at).await?;
                self.node.restart(Restart::Killed).await?;
            }
            Step::DiskFull(who, at) => {
                self.node.restart(Restart::DiskFull).await?;
                self.claim_and_push(*who, at).await?;
                self.check(step).await?;
                self.node.restart(Restart::Orderly).await?;
            }
            Step::Rename => {
                self.node.restart(Restart::Renamed).await?;
                self.check(step).await?;
                self.node.restart(Restart::Orderly).await?;
            }
            Step::Request(who, to, commit) => {
                let event = self.request(*who, *to, *commit);
                let answer = self.node.send(&event).await?;
                self.say_request(event, *who, *to, *commit, is_taken(&answer));
            }
            Step::Propose(who, to, commit) => {
                let event = self.request(*who, *to, *commit);
                self.say_request(event, *who, *to, *commit, false);
                self.push_tip(*to, self.said.len() - 1, None).await?;
            }
            Step::PushTip(to, nth, commit) => {
                let all = self.said.iter().enumerate();
                let mut requests = all.filter(|(_, it)| matches!(it.what, What::Request { .. }));
                if let Some((said, _)) = requests.nth(*nth) {
                    self.push_tip(*to, said, *commit).await?;
                }
            }
            Step::Ban(who) => {
                self.banned.insert(*who);
                self.ban().await?;
            }
            Step::Unban(who) => {
                self.banned.remove(who);
                self.ban().await?;
            }
            Step::Wait => {
                let held = self.said.iter().filter(|said| said.was == Status::Held);
                let held: Vec<EventId> = held.map(|said| said.event.id).collect();
                self.node.expire_held(&held).await?;
                if self.node.is_at_rest() {
                    self.pushed_tips.clear();
                }
            }
            Step::Restart => self.node.restart(Restart::Orderly).await?,
            Step::Kill => self.node.restart(Restart::Killed).await?,
        }
        Ok(())
    }

    fn say(&mut self, event: Event, who: usize, what: What, is_taken: bool) {
        self.said.push(Said {
            event,
            who,
            what,
            is_over: false,
            was: Status::Gone,
            is_taken,
        });
    }

    /// No announcement of before the last one counts any more.
    fn note_departure(&mut self, who: usize) {
        let said = self.said.last().expect("an announcement was just said");
        self.left.insert(who, said.event.clone());
    }

    /// Sends an announcement; says whether it was accepted.
    async fn announce(
        &mut self,
        who: usize,
        server: &str,
        maintainers: &[usize],
        until: Option<u64>,
    ) -> Result<bool> {
        let mut more = Vec::new();
        if !maintainers.is_empty() {
            let keys = maintainers.iter().map(|it| self.people[*it].hex());
            more.push(tag(["maintainers".to_owned()].into_iter().chain(keys)));
        }
        if let Some(url) = self.node.clone_url(&self.name) {
            more.push(tag(["clone", &url]));
        }
        more.extend(until.map(expiration));
        let at = self.now();
        let event = self.people[who].announcement_at(server, &self.name, more, at);
        let answer = self.node.send(&event).await?;
        let what = What::Announcement {
            lists_us: server == self.node.service(),
            maintainers: maintainers.to_vec(),
        };
        self.say(event, who, what, is_taken(&answer));
        Ok(answer.accepted)
    }

    /// Sends a state; says whether it was accepted.
    async fn state(
        &mut self,
        who: usize,
        at: &Tips,
        time: Timestamp,
        until: Option<u64>,
    ) -> Result<bool> {
        let (event, state) = self.sign_state(who, at, time, until);
        let answer = self.node.send(&event).await?;
        self.say(event, who, What::State(state), is_taken(&answer));
        Ok(answer.accepted)
    }

    fn sign_state(
        &self,
        who: usize,
        at: &Tips,
        time: Timestamp,
        until: Option<u64>,
    ) -> (Event, State) {
        let named = BRANCHES.iter().zip(&at.at);
        let named = named.filter_map(|(name, at)| Some((*name, self.fixture.commit((*at)?))));
        let refs: Refs = named.map(|(name, oid)| (name.into(), oid.into())).collect();
        let mut tags = vec![tag(["d", &self.name])];
        tags.extend(refs.iter().map(|(name, oid)| tag([name, oid])));
        let head = at.head.map(|head| BRANCHES[head]);
        tags.extend(head.map(|head| tag(["HEAD", &format!("ref: {head}")])));
        tags.extend(until.map(expiration));
        let event = self.people[who].sign_at(30618, "", tags, time);
        let head = head.filter(|head| refs.contains_key(*head));
        (event, State { refs, head })
    }

    /// A state and the push of all it says.
    async fn claim_and_push(&mut self, who: usize, at: &Tips) -> Result<()> {
        let time = self.now();
        self.state(who, at, time, None).await?;
        self.push(who, who, &[true, true]).await
    }

    /// Something that ends by itself, once it was there.
    async fn expire(&mut self, who: usize, at: Option<&Tips>) -> Result<()> {
        let end = Timestamp::now().as_secs() + 1;
        match at {
            Some(at) => {
                let time = self.now();
                self.state(who, at, time, Some(end)).await?;
                self.push(who, who, &[true, true]).await?;
            }
            None => {
                let server = self.node.service();
                if self.announce(who, &server, &[], Some(end)).await? {
                    self.note_departure(who);
                }
            }
        }
        until_true("the event is over", || Timestamp::now().as_secs() >= end).await?;
        self.node.end_expired().await?;
        let said = self.said.last_mut().expect("it was just said");
        said.is_over = true;
        said.is_taken = false;
        Ok(())
    }

    async fn fetch(&mut self, commit: usize) -> Result<()> {
        // Only what somebody waits for is ever fetched.
        let tip = self.fixture.commit(commit);
        let waits = self.said.iter().any(|it| match &it.what {
            What::State(state) => state.refs.values().any(|oid| oid == tip),
            _ => false,
        });
        if waits {
            self.node.fetch(&self.name, tip, self.fixture).await?;
        }
        Ok(())
    }

    async fn push(&mut self, to: usize, by: usize, which: &[bool; 2]) -> Result<()> {
        let owner = &self.people[to];
        let all = self.said.iter().enumerate().rev();
        let mut newest = all.filter_map(|(nth, it)| match &it.what {
            What::State(state) if it.who == by => Some((nth, &state.refs)),
            _ => None,
        });
        let Some((nth, says)) = newest.next() else {
            return Ok(());
        };
        let Some(current) = self.node.repository(owner, &self.name).await? else {
            return Ok(());
        };
        let mut commands = Vec::new();
        for (name, chosen) in BRANCHES.iter().zip(which) {
            let at = |refs: &'_ Refs| refs.get(*name).cloned();
            let old = at(&current.refs).unwrap_or_else(|| wire::ZERO.to_owned());
            let new = at(says).unwrap_or_else(|| wire::ZERO.to_owned());
            if *chosen && (old != wire::ZERO || new != wire::ZERO) {
                commands.push((old, new, *name));
            }
        }
        if commands.is_empty() {
            return Ok(());
        }
        let lines: Vec<(&str, &str, &str)> = commands
            .iter()
            .map(|(old, new, name)| (old.as_str(), new.as_str(), *name))
            .collect();
        let mut body = wire::commands(&lines, wire::CAPABILITIES);
        body.extend(self.fixture.pack(lines.iter().map(|(_, new, _)| *new)));
        self.tally.pushes += 1;
        let is_full = to == by && which.iter().all(|chosen| *chosen);
        let is_owed = is_full && self.is_newest_state(nth) && self.is_host_of(by);
        self.node.push(owner, &self.name, body).await?;
        self.owed.extend(is_owed.then_some(nth));
        Ok(())
    }

    /// Says whether a state names something, counts at present, and no other counts more.
    fn is_newest_state(&self, nth: usize) -> bool {
        let said = &self.said[nth];
        let mut others = self.said.iter().filter(|it| it.was != Status::Gone);
        let is_named = matches!(&said.what, What::State(state) if !state.refs.is_empty());
        is_named
            && said.was != Status::Gone
            && !others.any(|it| matches!(it.what, What::State(_)) && newer(&it.event, &said.event))
    }

    /// The announcement of a person that counts at present.
    pub(super) fn announced(&self, who: usize) -> Option<&Said> {
        let theirs = self.said.iter().filter(|it| {
            let is_announcement = matches!(it.what, What::Announcement { .. });
            is_announcement && it.who == who && it.was != Status::Gone
        });
        theirs.reduce(|best, it| {
            if newer(&it.event, &best.event) {
                it
            } else {
                best
            }
        })
    }

    /// Says whether a person has a repository here at present, and has not left.
    fn is_host_of(&self, who: usize) -> bool {
        let has_left = |said: &Said| {
            let left = self.left.get(&who);
            left.is_some_and(|left| newer(left, &said.event))
        };
        self.announced(who)
            .is_some_and(|said| said.lists_us() && !has_left(said))
    }

    fn request(&self, who: usize, to: usize, commit: usize) -> Event {
        let (author, owner) = (&self.people[who], &self.people[to]);
        let tip = self.fixture.commit(commit);
        let url = self.node.clone_url(&self.name);
        let url = url.as_deref().unwrap_or("https://elsewhere.example/x.git");
        author.pull_request(owner, &self.name, tip, url)
    }

    fn say_request(&mut self, event: Event, who: usize, to: usize, commit: usize, taken: bool) {
        let tip = self.fixture.commit(commit).to_owned();
        self.say(event, who, What::Request { to, tip }, taken);
    }

    /// Pushes the tip of a pull request, or another commit in its place.
    async fn push_tip(&mut self, to: usize, nth: usize, commit: Option<usize>) -> Result<()> {
        let said = &self.said[nth];
        let What::Request { to: meant_for, tip } = &said.what else {
            unreachable!("only pull requests have tips");
        };
        let owner = &self.people[to];
        let Some(current) = self.node.repository(owner, &self.name).await? else {
            return Ok(());
        };
        let id = said.event.id;
        let name = nostr_ref(&id);
        let new = commit.map_or(tip.as_str(), |commit| self.fixture.commit(commit));
        let old = current.refs.get(&name).map_or(wire::ZERO, String::as_str);
        let mut body = wire::commands(&[(old, new, &name)], wire::CAPABILITIES);
        body.extend(self.fixture.pack([new]));
        self.tally.tips += 1;
        let is_owed = to == *meant_for
            && new == tip
            && said.was == Status::Held
            && self.is_host_of(to)
            && current.is_served;
        self.node.push(owner, &self.name, body).await?;
        let pushed = self.pushed_tips.entry((to, id)).or_default();
        pushed.insert(new.to_owned());
        self.owed.extend(is_owed.then_some(nth));
        Ok(())
    }

    async fn delete_event(&mut self, nth: usize) -> Result<()> {
        let at = self.now();
        let Some(said) = self.said.get(nth) else {
            return Ok(());
        };
        let id = said.event.id;
        let tags = vec![tag(["e", &id.to_hex()])];
        let event = self.people[said.who].sign_at(5, "", tags, at);
        if self.node.send(&event).await?.accepted {
            self.taken_back.push(TakenBack::Event(id));
        }
        Ok(())
    }

    async fn delete(&mut self, who: usize, kind: u16) -> Result<()> {
        let at = self.now();
        let address = format!("{kind}:{}:{}", self.people[who].hex(), self.name);
        let event = self.people[who].sign_at(5, "", vec![tag(["a", &address])], at);
        if self.node.send(&event).await?.accepted {
            self.taken_back.push(TakenBack::Address(who, kind, at));
        }
        Ok(())
    }

    async fn ban(&mut self) -> Result<()> {
        let banned = self.banned.iter().map(|who| self.people[*who].pubkey());
        self.node.ban(&banned.collect()).await
    }
}

fn expiration(end: u64) -> Vec<String> {
    tag(["expiration", &end.to_string()])
}

/// The ref of a pull request's tip.
pub(super) fn nostr_ref(event: &EventId) -> String {
    format!("refs/nostr/{}", event.to_hex())
}

/// NIP-01's order.
pub(super) fn newer(event: &Event, than: &Event) -> bool {
    (event.created_at, Reverse(event.id)) > (than.created_at, Reverse(than.id))
}

/// Says whether the node has taken an event that it did not have.
fn is_taken(answer: &crate::Answer) -> bool {
    answer.accepted && !answer.message.starts_with("duplicate:")
}
