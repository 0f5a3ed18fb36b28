//! One budget for the memory of all git processes, shared out among those who make them start.
//!
//! A process is started once its part of the budget is free, and may not take more: the system
//! refuses it (`RLIMIT_DATA`). What is counted is the most it may take, not what it takes.
//!
//! Whose share is used up:
//!
//! | bound | counts against |
//! |---|---|
//! | all | everybody |
//! | a quarter, and half of what is free | one network of clients |
//! | half | one identifier; of that, the same parts for one network |
//! | half | all that is fetched from other servers |
//! | a quarter | all pages for people |
//!
//! A payer that has nothing yet gets a first part if it is free at all. Who finds none waits for
//! [`MAX_WAIT`], and may be overtaken by those who need less: what is free does not lie idle. Where a client
//! waits who has nothing yet, slow uploads and unread fetches of others make room: each holds its part for as long as its client takes.

use std::{collections::HashMap, hash::Hash, sync::Arc, time::Duration};

use grip_tasks::MakesRoom;
use grip_types::{ClientNetwork, Identifier, Owner};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

/// How long a process waits for its part.
const MAX_WAIT: Duration = Duration::from_secs(20);
/// How often one that waits looks for an upload that has become slow.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many may wait in all, and of one network; more are refused at once.
const MAX_WAITING: usize = 256;
const MAX_WAITING_PER_PAYER: usize = 32;
/// The least budget: below it not even one process could work.
const MIN_LIMIT: u64 = 256 << 20;

/// Who makes a git process start, and so uses up its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Payer {
    /// A client of this network.
    Client(ClientNetwork),
    /// A client behind a proxy that does not name its clients, or an operator.
    #[default]
    Unknown,
    /// What is fetched from other servers.
    Fetch,
    /// Repacking and collecting.
    Maintenance,
    /// All pages for people together, so that they leave the rest to git.
    Pages,
}

impl Payer {
    /// In whose line it waits: each network in one of its own, all others in one.
    pub(crate) fn owner(self) -> Owner {
        match self {
            Self::Client(network) => Owner::of_network(network),
            _ => Owner::default(),
        }
    }

    /// Whether no git client waits for it, so that it is done with what processors are free.
    pub(crate) fn gives_way(self) -> bool {
        matches!(self, Self::Fetch | Self::Maintenance | Self::Pages)
    }
}

/// Whose part of the memory is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    All,
    Payer,
    Identifier,
}

/// Git was not started, since the memory for it is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("busy, try again in a moment: {} of the {} MiB of memory that git may have on this server", self.who(), .limit >> 20)]
pub struct MemoryFull {
    whose: Whose,
    limit: u64,
}

impl MemoryFull {
    fn who(&self) -> &'static str {
        match self.whose {
            Whose::All => "requests under way use all",
            Whose::Payer => "requests from your network use their share",
            Whose::Identifier => "requests for repositories of this name use their share",
        }
    }
}

/// How much of the budget is in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    pub limit_bytes: u64,
    pub used_bytes: u64,
    pub processes: usize,
    pub waiting: usize,
    /// Since the start.
    pub refused: u64,
}

pub(crate) struct MemoryBudget {
    limit: u64,
    state: Mutex<State>,
    freed: Notify,
}

#[derive(Default)]
struct State {
    used: u64,
    processes: usize,
    payers: HashMap<Payer, u64>,
    identifiers: HashMap<Identifier, u64>,
    payers_in_identifiers: HashMap<(Payer, Identifier), u64>,
    waiting: usize,
    waiting_payers: HashMap<Payer, u64>,
    /// Bounded by the processes.
    transfers: Vec<Transfer>,
    /// That of the next of them.
    number: u64,
    refused: u64,
}

/// A transfer that holds a part of the budget for as long as its client takes.
struct Transfer {
    number: u64,
    payer: Payer,
    identifier: Identifier,
    room: Arc<dyn MakesRoom>,
}

/// A part of the budget; dropping it frees it.
#[must_use = "the memory is free again as soon as the permit is dropped"]
pub(crate) struct MemoryPermit {
    budget: Arc<MemoryBudget>,
    payer: Payer,
    identifier: Identifier,
    bytes: u64,
    /// The number of the transfer it is for.
    transfer: Option<u64>,
}

impl MemoryBudget {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self {
            limit: limit.max(MIN_LIMIT),
            state: Mutex::default(),
            freed: Notify::new(),
        })
    }

    /// A part for one process, or half of all if it wants more. Cancel safe.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        payer: Payer,
        identifier: &Identifier,
        bytes: u64,
    ) -> Result<MemoryPermit, MemoryFull> {
        let bytes = bytes.min(self.most());
        self.wait(payer, identifier, bytes).await?;
        self.state.lock().processes += 1;
        Ok(MemoryPermit {
            budget: Arc::clone(self),
            payer,
            identifier: identifier.clone(),
            bytes,
            transfer: None,
        })
    }

    /// The most that one process may have.
    pub(crate) fn most(&self) -> u64 {
        self.limit / 2
    }

    pub(crate) fn usage(&self) -> MemoryUse {
        let state = self.state.lock();
        MemoryUse {
            limit_bytes: self.limit,
            used_bytes: state.used,
            processes: state.processes,
            waiting: state.waiting,
            refused: state.refused,
        }
    }

    /// Takes `bytes`, now or when they are free.
    async fn wait(
        self: &Arc<Self>,
        payer: Payer,
        identifier: &Identifier,
        bytes: u64,
    ) -> Result<(), MemoryFull> {
        let deadline = Instant::now() + MAX_WAIT;
        let mut waiting = None;
        loop {
            let freed = self.freed.notified();
            let is_last = Instant::now() >= deadline;
            let short = match self.look(payer, identifier, bytes, &mut waiting, is_last)? {
                Some(short) => short,
                None => return Ok(()),
            };
            // Not under the lock: who makes room frees what it holds, and its client may be at work.
            make_room(&short);
            // Freed or not, it is time to look again.
            let _ = timeout_at(deadline.min(Instant::now() + LOOK_EVERY), freed).await;
        }
    }

    /// Takes `bytes` if they are free; else takes a place among those who wait, unless it is the last
    /// look, and returns who might make room.
    fn look(
        self: &Arc<Self>,
        payer: Payer,
        identifier: &Identifier,
        bytes: u64,
        waiting: &mut Option<Waiting>,
        is_last: bool,
    ) -> Result<Option<Vec<Arc<dyn MakesRoom>>>, MemoryFull> {
        let mut state = self.state.lock();
        let whose = match state.take(self.limit, payer, identifier, bytes) {
            Ok(()) => return Ok(None),
            Err(whose) => whose,
        };
        if is_last || (waiting.is_none() && !state.has_place(&payer)) {
            state.refused += 1;
            let limit = self.limit;
            return Err(MemoryFull { whose, limit });
        }
        if waiting.is_none() {
            state.begin_wait(payer);
            let budget = Arc::clone(self);
            *waiting = Some(Waiting { budget, payer });
        }
        Ok(Some(state.others(whose, payer, identifier)))
    }
}

/// Has the slowest of those that are slow make room.
fn make_room(transfers: &[Arc<dyn MakesRoom>]) {
    let rates = transfers.iter().map(|it| (it.slow_bytes_per_second(), it));
    let slow = rates.filter_map(|(rate, it)| Some((rate?, it)));
    if let Some((_, slowest)) = slow.min_by_key(|(rate, _)| *rate) {
        slowest.make_room();
    }
}

/// A place among those who wait; dropping it frees it.
struct Waiting {
    budget: Arc<MemoryBudget>,
    payer: Payer,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        state.waiting -= 1;
        subtract(&mut state.waiting_payers, &self.payer, 1);
    }
}

impl State {
    fn take(
        &mut self,
        limit: u64,
        payer: Payer,
        identifier: &Identifier,
        bytes: u64,
    ) -> Result<(), Whose> {
        let of = |used: Option<&u64>| used.copied().unwrap_or(0);
        let (mine, half) = (of(self.payers.get(&payer)), limit / 2);
        let of_identifier = of(self.identifiers.get(identifier));
        let key = (payer, identifier.clone());
        let mine_there = of(self.payers_in_identifiers.get(&key));
        if self.used + bytes > limit {
            return Err(Whose::All);
        }
        if of_identifier > 0 && of_identifier + bytes > half {
            return Err(Whose::Identifier);
        }
        let has_share = match payer {
            Payer::Client(_) => {
                fits(mine, bytes, limit, self.used) && fits(mine_there, bytes, half, of_identifier)
            }
            Payer::Fetch => mine == 0 || mine + bytes <= half,
            Payer::Pages => mine == 0 || mine + bytes <= limit / 4,
            Payer::Unknown | Payer::Maintenance => true,
        };
        if !has_share {
            return Err(Whose::Payer);
        }
        self.used += bytes;
        *self.payers.entry(payer).or_default() += bytes;
        *self.identifiers.entry(identifier.clone()).or_default() += bytes;
        *self.payers_in_identifiers.entry(key).or_default() += bytes;
        Ok(())
    }

    /// The transfers of others that may make room for a client who has nothing of what is short.
    fn others(
        &self,
        whose: Whose,
        payer: Payer,
        identifier: &Identifier,
    ) -> Vec<Arc<dyn MakesRoom>> {
        let has_some = match whose {
            Whose::All => self.payers.contains_key(&payer),
            Whose::Identifier => {
                let key = (payer, identifier.clone());
                self.payers_in_identifiers.contains_key(&key)
            }
            Whose::Payer => return Vec::new(),
        };
        let may_ask = match payer {
            Payer::Client(_) => !has_some,
            // It may be anybody.
            Payer::Unknown => true,
            Payer::Fetch | Payer::Maintenance | Payer::Pages => false,
        };
        if !may_ask {
            return Vec::new();
        }
        let others = self.transfers.iter().filter(|transfer| {
            let is_of = whose == Whose::All || transfer.identifier == *identifier;
            is_of && (transfer.payer != payer || payer == Payer::Unknown)
        });
        others.map(|transfer| Arc::clone(&transfer.room)).collect()
    }

    fn free(&mut self, payer: Payer, identifier: &Identifier, bytes: u64) {
        self.used -= bytes;
        subtract(&mut self.payers, &payer, bytes);
        subtract(&mut self.identifiers, identifier, bytes);
        let key = (payer, identifier.clone());
        subtract(&mut self.payers_in_identifiers, &key, bytes);
    }

    fn has_place(&self, payer: &Payer) -> bool {
        let of_payer = self.waiting_payers.get(payer).copied().unwrap_or(0);
        self.waiting < MAX_WAITING && of_payer < MAX_WAITING_PER_PAYER as u64
    }

    fn begin_wait(&mut self, payer: Payer) {
        self.waiting += 1;
        *self.waiting_payers.entry(payer).or_default() += 1;
    }
}

/// Says whether one network may have `bytes` more of a pool: its first part, or up to a quarter of
/// the pool and half of what is free in it.
fn fits(mine: u64, bytes: u64, pool: u64, used: u64) -> bool {
    let free = pool.saturating_sub(used);
    mine == 0 || mine + bytes <= (pool / 4).min(free / 2)
}

fn subtract<K: Eq + Hash>(counted: &mut HashMap<K, u64>, key: &K, amount: u64) {
    if let Some(left) = counted.get_mut(key) {
        *left -= amount;
        if *left == 0 {
            counted.remove(key);
        }
    }
}

impl MemoryPermit {
    pub(crate) fn payer(&self) -> Payer {
        self.payer
    }

    /// Says for which transfer it is, which makes room where others wait and its client is slow.
    pub(crate) fn may_make_room(&mut self, room: Arc<dyn MakesRoom>) {
        let mut state = self.budget.state.lock();
        let number = state.number;
        state.number += 1;
        state.transfers.push(Transfer {
            number,
            payer: self.payer,
            identifier: self.identifier.clone(),
            room,
        });
        self.transfer = Some(number);
    }

    /// The most that the process may take.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most that it may ever take.
    pub(crate) fn most(&self) -> u64 {
        self.budget.most()
    }

    /// Makes the part as large as `wanted`, or half of all, if that is free now; else waits until it
    /// has at least `least`. Cancel safe.
    pub(crate) async fn grow(&mut self, least: u64, wanted: u64) -> Result<(), MemoryFull> {
        let more = |bytes: u64| bytes.min(self.budget.most()).saturating_sub(self.bytes);
        let (least, wanted) = (more(least), more(wanted));
        let (limit, identifier) = (self.budget.limit, &self.identifier);
        let taken = self
            .budget
            .state
            .lock()
            .take(limit, self.payer, identifier, wanted);
        if taken.is_ok() {
            self.bytes += wanted;
        } else if least > 0 {
            self.budget.wait(self.payer, identifier, least).await?;
            self.bytes += least;
        }
        Ok(())
    }
}

impl Drop for MemoryPermit {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        state.processes -= 1;
        if let Some(number) = self.transfer {
            state.transfers.retain(|other| other.number != number);
        }
        state.free(self.payer, &self.identifier, self.bytes);
        drop(state);
        self.budget.freed.notify_waiters();
    }
}

/// Half of the memory of this machine, or of the control group that the node runs in; 2 GiB where
/// nobody says.
pub(crate) fn default_limit() -> u64 {
    let read = |path| std::fs::read_to_string(path).ok();
    let total = read("/proc/meminfo").and_then(|text| meminfo_total(&text));
    let group = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse().ok());
    let memory = total.into_iter().chain(group).min();
    memory.map_or(2 << 30, |memory| memory / 2).max(MIN_LIMIT)
}

fn meminfo_total(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use grip_tasks::UploadProgress;
    use grip_types::NetworkPrefixes;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn client(last: u8) -> Payer {
        Payer::Client(NetworkPrefixes::default().network([192, 0, 2, last].into()))
    }

    fn identifier(name: &str) -> Identifier {
        Identifier::parse(name).unwrap()
    }

    async fn all(budget: &Arc<MemoryBudget>, payer: Payer, name: &str) -> Vec<MemoryPermit> {
        let mut taken = Vec::new();
        while let Ok(permit) = budget.acquire(payer, &identifier(name), 16 * MIB).await {
            taken.push(permit);
        }
        taken
    }

    fn mib(permits: &[MemoryPermit]) -> u64 {
        permits.iter().map(|permit| permit.bytes / MIB).sum()
    }

    #[tokio::test(start_paused = true)]
    async fn one_network_leaves_most_of_the_memory_to_others() {
        let budget = MemoryBudget::new(1024 * MIB);
        let mut flood = Vec::new();
        for name in ["a", "b", "c", "d", "e", "f", "g", "h"] {
            flood.extend(all(&budget, client(1), name).await);
        }
        assert_eq!(mib(&flood), 256);
        assert!(mib(&all(&budget, client(2), "a").await) >= 64);
        let refused = budget.acquire(client(1), &identifier("z"), 16 * MIB).await;
        let text = refused.err().unwrap().to_string();
        assert!(
            text.contains("your network") && text.contains("1024 MiB"),
            "{text}"
        );
        drop(flood);
        let state = budget.state.lock();
        assert!(state.payers.is_empty() && state.payers_in_identifiers.is_empty());
        assert_eq!((state.used, state.processes, state.waiting), (0, 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn two_networks_do_not_close_one_repository_nor_many_the_node() {
        let budget = MemoryBudget::new(1024 * MIB);
        let flood = [
            all(&budget, client(1), "victim").await,
            all(&budget, client(2), "victim").await,
        ];
        assert!(flood.iter().flatten().count() > 10);
        let owner = budget
            .acquire(client(3), &identifier("victim"), 64 * MIB)
            .await;
        assert!(owner.is_ok());
        let mut more = Vec::new();
        for n in 4..=60 {
            more.extend(all(&budget, client(n), "victim").await);
        }
        assert!(budget.usage().used_bytes <= 512 * MIB);
        let other = budget
            .acquire(client(61), &identifier("other"), 64 * MIB)
            .await;
        assert!(other.is_ok(), "another repository has its own half");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_uploads_of_many_networks_make_room_for_another() {
        let budget = MemoryBudget::new(1024 * MIB);
        let (mut uploads, mut all) = (Vec::new(), Vec::new());
        for n in 0..16 {
            let name = identifier(&format!("r{n}"));
            let mut permit = budget.acquire(client(n), &name, 64 * MIB).await.unwrap();
            let progress = Arc::<UploadProgress>::default();
            permit.may_make_room(progress.clone());
            all.push(Arc::clone(&progress));
            uploads.push(async move {
                progress.received(100 * MIB as usize);
                if n != 7 {
                    progress.waiting();
                }
                progress.displaced().await;
                drop(permit);
            });
        }
        let began = Instant::now();
        let name = identifier("victim");
        tokio::select! {
            owner = budget.acquire(client(99), &name, 64 * MIB) => assert!(owner.is_ok()),
            _ = futures_util::future::join_all(uploads) => unreachable!(),
        }
        assert!(began.elapsed() <= UploadProgress::GRACE + LOOK_EVERY);
        let displaced = all.iter().filter(|it| it.is_displaced()).count();
        assert_eq!((displaced, all[7].is_displaced()), (1, false));
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_his_share_displaces_nobody() {
        let budget = MemoryBudget::new(256 * MIB);
        let mut slow = budget
            .acquire(client(1), &identifier("a"), 64 * MIB)
            .await
            .unwrap();
        let progress = Arc::<UploadProgress>::default();
        slow.may_make_room(progress.clone());
        progress.waiting();
        let name = identifier("b");
        let first = budget.acquire(client(2), &name, 128 * MIB).await.unwrap();
        assert!(budget.acquire(client(2), &name, 128 * MIB).await.is_err());
        assert!(
            budget
                .acquire(Payer::Pages, &name, 128 * MIB)
                .await
                .is_err()
        );
        assert!(!progress.is_displaced());
        drop((slow, first));
        assert!(budget.state.lock().transfers.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_fetched_leaves_half_to_pushes_and_clones() {
        let budget = MemoryBudget::new(1024 * MIB);
        let mut fetches = Vec::new();
        for n in 0..60 {
            fetches.extend(all(&budget, Payer::Fetch, &format!("r{n}")).await);
        }
        assert_eq!(mib(&fetches), 512);
        assert!(
            budget
                .acquire(client(1), &identifier("r"), 256 * MIB)
                .await
                .is_ok()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_goes_on_when_memory_is_freed_and_is_refused_after_a_while() {
        let budget = MemoryBudget::new(512 * MIB);
        let (x, y) = (identifier("x"), identifier("y"));
        let first = budget.acquire(Payer::Unknown, &x, 1 << 40).await.unwrap();
        assert_eq!(first.bytes(), 256 * MIB, "half of all at most");
        let second = budget.acquire(Payer::Unknown, &y, 256 * MIB).await.unwrap();
        let began = Instant::now();
        assert!(budget.acquire(Payer::Unknown, &y, MIB).await.is_err());
        assert_eq!(began.elapsed(), MAX_WAIT);
        assert_eq!(budget.usage().refused, 1);
        let (third, ()) = tokio::join!(budget.acquire(client(1), &x, 32 * MIB), async {
            drop(first);
        });
        let mut third = third.unwrap();
        third.grow(48 * MIB, 64 * MIB).await.unwrap();
        assert_eq!(budget.usage().used_bytes, (256 + 64) * MIB);
        third.grow(200 * MIB, 300 * MIB).await.unwrap_err();
        let mut fourth = budget.acquire(client(2), &x, MIB).await.unwrap();
        fourth.grow(2 * MIB, 200 * MIB).await.unwrap();
        assert_eq!(fourth.bytes(), 2 * MIB, "less than wanted, and at once");
        drop(fourth);
        drop((second, third));
        assert_eq!(budget.usage().used_bytes, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_wait() {
        let budget = MemoryBudget::new(512 * MIB);
        let taken: Vec<_> = [
            budget
                .acquire(Payer::Unknown, &identifier("x"), 256 * MIB)
                .await,
            budget
                .acquire(Payer::Unknown, &identifier("y"), 256 * MIB)
                .await,
        ]
        .into();
        let name = identifier("z");
        let waits = (0..40).map(|_| budget.acquire(client(1), &name, MIB));
        let began = Instant::now();
        let mut refused_at_once = 0;
        let count = async |wait: std::pin::Pin<Box<dyn Future<Output = _>>>| {
            let refused: Result<MemoryPermit, MemoryFull> = wait.await;
            assert!(refused.is_err());
            began.elapsed().is_zero()
        };
        let ends = futures_util::future::join_all(waits.map(|wait| count(Box::pin(wait)))).await;
        refused_at_once += ends.into_iter().filter(|at_once| *at_once).count();
        assert_eq!(refused_at_once, 40 - MAX_WAITING_PER_PAYER);
        drop(taken);
    }

    #[test]
    fn the_machine_says_how_much_it_has() {
        let text = "MemTotal:       24681472 kB\nMemFree: 1 kB\n";
        assert_eq!(meminfo_total(text), Some(24_681_472 * 1024));
        assert_eq!(meminfo_total("nothing"), None);
        assert!(default_limit() >= MIN_LIMIT);
    }
}
