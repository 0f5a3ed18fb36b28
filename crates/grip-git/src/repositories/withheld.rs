//! Objects that only events out of service name (G01-112): given out by no id.
//!
//! Git gives out any object by its id, and one pack may hold what is out of service beside what is not. So
//! a fetch that names anything but shown refs is compared with what is withheld: all that the tips out of
//! service lead to, but for what shown refs and recorded moves lead to. What a client lacks of a shown ref,
//! after a partial clone for example, is given out as ever.

mod sets;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    io::{self, BufRead as _, BufReader, Read, Seek},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use grip_types::{Identifier, ObjectFormat, Oid, Owner, RepoAddr};
use parking_lot::Mutex;

pub(crate) use self::sets::WithheldSets;
use self::sets::{SetKey, WithheldSet};
use super::Repositories;
use crate::{
    memory::MemoryPermit,
    pktline::{self, Packet},
    process::walk_input,
    refs::{self, RefSnapshot},
};

/// A line of git: an id in hex.
const LINE: usize = 41;
/// Wants of one request that are compared: the files of a large tree, after a partial clone.
const MAX_UNSHOWN: usize = 200_000;

/// Bytes that can be read again.
pub(crate) trait ReadSeek: Read + Seek {}

impl<T: Read + Seek> ReadSeek for T {}

/// The tips of events that are kept out of service, by identifier and event. Clones share everything.
/// Bounded by the events that are kept.
#[derive(Clone, Debug, Default)]
pub struct WithheldTips {
    tips: Arc<Mutex<Tips>>,
    /// Set where it is not known which events are out of service: only tips of shown refs are given out.
    all: Arc<AtomicBool>,
}

type Tips = BTreeMap<Identifier, BTreeMap<[u8; 32], Vec<Oid>>>;

/// What one event names of the objects of one identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTips {
    pub identifier: Identifier,
    pub event: [u8; 32],
    pub tips: Vec<Oid>,
}

impl WithheldTips {
    /// Withholds from now on every object but the tips of shown refs.
    pub fn withhold_unshown(&self) {
        self.all.store(true, Ordering::Release);
    }

    /// Withholds what an event names that is taken out of service.
    pub fn add(&self, named: NamedTips) {
        put(&mut self.tips.lock(), named);
    }

    /// Ends it: the event is back, or not kept any more.
    pub fn remove(&self, event: &[u8; 32]) {
        self.tips.lock().retain(|_, events| {
            events.remove(event);
            !events.is_empty()
        });
    }

    /// Withholds what these name and nothing else.
    pub fn replace(&self, all: impl IntoIterator<Item = NamedTips>) {
        let mut tips = Tips::new();
        for named in all {
            put(&mut tips, named);
        }
        *self.tips.lock() = tips;
    }

    fn withholds_unshown(&self) -> bool {
        self.all.load(Ordering::Acquire)
    }

    fn has(&self, identifier: &Identifier) -> bool {
        self.withholds_unshown() || self.tips.lock().contains_key(identifier)
    }

    fn of(&self, identifier: &Identifier) -> BTreeSet<Oid> {
        let tips = self.tips.lock();
        let events = tips.get(identifier).into_iter().flat_map(BTreeMap::values);
        // No other kind of id is in any store here, and git takes it for the name of a branch.
        let is_here = |oid: &&Oid| oid.as_bytes().len() == ObjectFormat::Sha1.len_bytes();
        events.flatten().filter(is_here).copied().collect()
    }
}

/// The refusal of stock git.
fn not_ours(oid: &Oid) -> io::Error {
    io::Error::other(format!("upload-pack: not our ref {oid}"))
}

fn put(tips: &mut Tips, named: NamedTips) {
    let events = tips.entry(named.identifier).or_default();
    events.insert(named.event, named.tips);
}

/// Wants of a fetch that no shown ref answers, in a repository that withholds something.
pub(crate) struct UnshownWants {
    wanted: HashSet<Oid>,
    withheld: BTreeSet<Oid>,
    shown: BTreeSet<Oid>,
    key: SetKey,
}

impl UnshownWants {
    /// Refuses them if one is withheld. Blocking: there may be many.
    fn compare(&self, set: &WithheldSet) -> io::Result<()> {
        match self.wanted.iter().find(|oid| set.contains(oid)) {
            Some(oid) => Err(not_ours(oid)),
            None => Ok(()),
        }
    }
}

impl Repositories {
    /// The tips that are withheld here.
    pub fn withheld_tips(&self) -> WithheldTips {
        self.inner.withheld.clone()
    }

    /// Says whether anything may be withheld of a repository.
    pub(crate) fn may_withhold(&self, repo: &RepoAddr) -> bool {
        repo.is_contributor() || self.inner.withheld.has(&repo.identifier)
    }

    /// The wants of a request that have to be compared with what is withheld; none if all are shown, or if
    /// nothing is withheld. Blocking.
    pub(crate) fn unshown_wants(
        &self,
        repo: &RepoAddr,
        request: &mut dyn ReadSeek,
    ) -> io::Result<Option<UnshownWants>> {
        let refs = self.refs(repo).map_err(io::Error::other)?;
        let (shown, withheld) = if repo.is_contributor() {
            let hidden = refs.moves().filter_map(refs::hidden_tip);
            let shown = refs.iter().map(|found| found.oid).collect();
            (shown, hidden.map(|(_, tip)| tip).collect())
        } else {
            (shown(&refs), self.inner.withheld.of(&repo.identifier))
        };
        if self.inner.withheld.withholds_unshown() {
            return match wants(request, &shown, 1)?.iter().next() {
                Some(oid) => Err(not_ours(oid)),
                None => Ok(None),
            };
        }
        if withheld.is_empty() {
            return Ok(None);
        }
        let wanted = wants(request, &shown, MAX_UNSHOWN + 1)?;
        if wanted.len() > MAX_UNSHOWN {
            let reason = format!("more than {MAX_UNSHOWN} objects are asked for by their ids");
            return Err(io::Error::other(reason));
        }
        if wanted.is_empty() {
            return Ok(None);
        }
        let key = self.set_key(repo, &withheld, &shown)?;
        let unshown = UnshownWants {
            wanted,
            withheld,
            shown,
            key,
        };
        match self.inner.withheld_sets.get(repo, &key) {
            Some(set) => unshown.compare(&set).map(|()| None),
            None => Ok(Some(unshown)),
        }
    }

    /// The key of what is withheld at this moment. Blocking.
    fn set_key(
        &self,
        repo: &RepoAddr,
        withheld: &BTreeSet<Oid>,
        shown: &BTreeSet<Oid>,
    ) -> io::Result<SetKey> {
        let tips: Vec<Oid> = withheld.iter().copied().collect();
        let are_here = self.inner.can_read(repo, &tips)?;
        Ok(SetKey::new(tips.iter().zip(are_here), shown.iter()))
    }

    /// Refuses a fetch that names something withheld. Memory is taken for the walk alone, if there is one:
    /// those who wait for it hold none. Cancel safe: the next who waits walks instead.
    pub(crate) async fn check_unshown(
        &self,
        repo: &RepoAddr,
        unshown: UnshownWants,
        owner: Owner,
        memory: impl AsyncFnOnce() -> io::Result<MemoryPermit>,
    ) -> io::Result<()> {
        let sets = &self.inner.withheld_sets;
        let turn = sets.enter(repo, owner).await;
        let _turn = turn.map_err(io::Error::other)?;
        if let Some(set) = sets.get(repo, &unshown.key) {
            return grip_tasks::spawn_blocking(move || unshown.compare(&set)).await?;
        }
        let (mut line, mut refused) = (Vec::with_capacity(LINE), None);
        let mut walked = sets.collect();
        let output = |bytes: &[u8]| {
            for byte in bytes {
                line.push(*byte);
                if line.len() == LINE {
                    if let Some(oid) = oid_of(&line) {
                        walked.add(&oid);
                        refused = refused.or(unshown.wanted.contains(&oid).then_some(oid));
                    }
                    line.clear();
                }
            }
        };
        let inner = &self.inner;
        let mut command = inner.git.walk();
        command.env("GIT_DIR", inner.layout.repository(repo));
        let (withheld, shown) = (unshown.withheld.iter(), unshown.shown.iter());
        let input = walk_input(withheld.copied(), shown.copied());
        let memory = memory().await?;
        // It writes no file.
        let finished = inner
            .git
            .run_with(command, &memory, input, output, 0)
            .await?;
        if !finished.status.success() {
            tracing::warn!(%repo, complaint = %finished.stderr, "failed to tell what a fetch may have");
            let reason = "it cannot be told at the moment whether these objects may be given out";
            return Err(io::Error::other(reason));
        }
        let (repositories, repo) = (self.clone(), repo.clone());
        let keep = move || {
            if let Some(set) = walked.finish()
                && repositories.is_whole(&repo, &unshown)?
            {
                repositories
                    .inner
                    .withheld_sets
                    .put(&repo, unshown.key, set);
            }
            io::Result::Ok(())
        };
        grip_tasks::spawn_blocking(keep).await??;
        match refused {
            Some(oid) => Err(not_ours(&oid)),
            None => Ok(()),
        }
    }

    /// Says whether a walk has met all it was to begin from: what came or went meanwhile, or is damaged,
    /// makes it one of that moment alone. Blocking.
    fn is_whole(&self, repo: &RepoAddr, unshown: &UnshownWants) -> io::Result<bool> {
        let shown: Vec<Oid> = unshown.shown.iter().copied().collect();
        let are_here = self.inner.can_read(repo, &shown)?;
        Ok(are_here.into_iter().all(|is_here| is_here)
            && self.set_key(repo, &unshown.withheld, &unshown.shown)? == unshown.key)
    }
}

fn oid_of(line: &[u8]) -> Option<Oid> {
    let hex = line.get(..40).and_then(|hex| str::from_utf8(hex).ok());
    hex.and_then(|hex| hex.parse().ok())
}

/// Says whether a request wants anything beside what refs in service are or were at.
pub(crate) fn names_unshown(refs: &RefSnapshot, request: &mut dyn ReadSeek) -> io::Result<bool> {
    Ok(!wants(request, &shown(refs), 1)?.is_empty())
}

/// What everybody may have by its id. Former tips of an archive are for everybody.
fn shown(refs: &RefSnapshot) -> BTreeSet<Oid> {
    let moved = refs.moves().map(|found| found.tip);
    refs.iter().map(|found| found.oid).chain(moved).collect()
}

/// Up to `max` ids that a request wants beside those shown; it is left at its beginning.
fn wants(
    request: &mut dyn ReadSeek,
    shown: &BTreeSet<Oid>,
    max: usize,
) -> io::Result<HashSet<Oid>> {
    let malformed = || io::Error::other("the request cannot be read");
    request.rewind()?;
    let mut wanted = HashSet::new();
    let mut reader = BufReader::new(&mut *request);
    let mut packet = Vec::new();
    while wanted.len() < max && !reader.fill_buf()?.is_empty() {
        packet.resize(4, 0);
        reader.read_exact(&mut packet)?;
        let len = str::from_utf8(&packet).ok();
        let len = len.and_then(|len| usize::from_str_radix(len, 16).ok());
        let rest = len.ok_or_else(malformed)?.saturating_sub(4);
        packet.resize(4 + rest, 0);
        reader.read_exact(&mut packet[4..])?;
        let Ok(Some((packet, _))) = pktline::decode(&packet) else {
            return Err(malformed());
        };
        if let Packet::Data(line) = packet
            && let Some(line) = line.strip_prefix(b"want ")
        {
            let oid = oid_of(line).ok_or_else(malformed)?;
            if !shown.contains(&oid) {
                wanted.insert(oid);
            }
        }
    }
    request.rewind()?;
    Ok(wanted)
}
