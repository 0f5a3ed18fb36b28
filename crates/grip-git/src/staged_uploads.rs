//! Staged uploads: tips pushed to `refs/nostr/<event-id>` before a signed event names them.
//!
//! ```text
//! .staged/<npub>/<identifier>.git/<pack>       the record: whose share, which refs rest on the pack
//! <npub>/<identifier>.git/objects/pack/<pack>  the pack, in the receiving repository alone
//! ```
//!
//! The other repositories of the identifier borrow from the shared store and not from each other, so
//! that nothing staged can be read there, or counts as present for anything. The event that names a
//! tip promotes it into the store. A pack goes with the last ref that rests on it.
//!
//! The record is durable before the pack, and removed after it: a crash leaves a staged upload whose
//! ref is there, or a record that the next start clears away together with what it names.
//!
//! Bytes are the share of the network that sent them, and of the identifier they were sent for
//! ([`crate::staging_shares`]). The oldest upload is never removed to make room: who comes later is told which
//! budget is full.
//!
//! All that a contributor repository has is staged for good: it has no store to be promoted into, and
//! an event that names a tip copies it into those repositories that the event is meant for. So nothing
//! of it can be read elsewhere before. Its shares are those of [`crate::contributor_quotas`].

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    fmt, fs, io,
    path::{Path, PathBuf},
};

use grip_types::{Identifier, Oid, PublicKey, RefName, RepoAddr};
use parking_lot::Mutex;

use crate::{
    contributor_quotas::{ContributorQuotas, Quota, Unit},
    disk, layout,
    staging_shares::{Sender, Shares},
};

/// Begins the line of a record that says where the upload came from.
const SENDER: &str = "from ";

/// Bytes that may be staged; each is a share, not a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingBudgets {
    /// For uploads from one network of clients; default 256 MiB.
    pub per_address: u64,
    /// For uploads to all repositories of one identifier; default 512 MiB, of which one network has a fifth
    /// where nobody else has any.
    pub per_identifier: u64,
    /// For contributor repositories, which take no part in the others.
    pub contributors: ContributorQuotas,
}

impl Default for StagingBudgets {
    fn default() -> Self {
        Self {
            per_address: 256 << 20,
            per_identifier: 512 << 20,
            contributors: ContributorQuotas::DEFAULT,
        }
    }
}

impl StagingBudgets {
    pub(crate) fn quota(&self, budget: &StagingBudget) -> Quota {
        // The refs of these are bounded by what waits for an event.
        let bytes = |bytes| Quota {
            bytes,
            refs: u64::MAX,
        };
        match budget {
            StagingBudget::Address(_) => bytes(self.per_address),
            StagingBudget::Identifier(_) => bytes(self.per_identifier),
            StagingBudget::ContributorAddress(_) => self.contributors.per_address,
            StagingBudget::Key(_) => self.contributors.per_key,
            StagingBudget::Target(_) => self.contributors.per_target,
        }
    }
}

/// A budget that an upload does not fit in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.sentence())]
pub struct StagingFull {
    pub budget: StagingBudget,
    pub limit: u64,
    /// Staged already.
    pub used: u64,
    pub unit: Unit,
    /// It is what the network of the sender has of the budget while others have the rest.
    pub is_share: bool,
}

impl StagingFull {
    fn sentence(&self) -> String {
        let (budget, unit) = (&self.budget, self.unit);
        let (limit, used) = (unit.amount(self.limit), unit.amount(self.used));
        match budget {
            StagingBudget::Address(_) | StagingBudget::Identifier(_) if !self.is_share => format!(
                "too large: uploads {budget} that no pull request event names yet may have {limit} in \
                 all, and {used} are stored; publish the event of an earlier upload, or push again \
                 when it has expired"
            ),
            StagingBudget::Address(_) | StagingBudget::Identifier(_) => format!(
                "too large: of uploads {budget} without an event your address may have {limit}, a \
                 quarter of what is free, and has {used}; publish an event, or push again later"
            ),
            _ if !self.is_share => format!(
                "over quota: pull requests {budget} may keep {limit} below /prs/, and {used} are \
                 stored; delete one (kind 5), or wait until an upload without an event has expired"
            ),
            _ => format!(
                "over quota: of pull requests {budget} your address may keep {limit} below /prs/, a \
                 quarter of what is free, and has {used}; delete one (kind 5), or push again later"
            ),
        }
    }
}

/// Whose share of the staged bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum StagingBudget {
    /// Of a network.
    Address(String),
    Identifier(Identifier),
    /// Of a network, for contributor repositories.
    ContributorAddress(String),
    /// Of the one in whose contributor repositories it is.
    Key(PublicKey),
    /// Of all contributor repositories of an identifier.
    Target(Identifier),
}

impl StagingBudget {
    /// Says whether it is the share of the network that sends.
    pub fn is_of_network(&self) -> bool {
        matches!(self, Self::Address(_) | Self::ContributorAddress(_))
    }
}

impl fmt::Display for StagingBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(_) | Self::ContributorAddress(_) => f.write_str("from your address"),
            Self::Identifier(identifier) => write!(f, "to repositories named {identifier}"),
            Self::Key(_) => f.write_str("below this npub"),
            Self::Target(identifier) => write!(f, "for repositories named {identifier}"),
        }
    }
}

pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 10 << 20 {
            write!(f, "{} bytes", self.0)
        } else {
            write!(f, "{} MiB", self.0 >> 20)
        }
    }
}

/// What is staged at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StagedTotals {
    pub uploads: usize,
    pub refs: usize,
    pub bytes: u64,
}

/// A pack that refs of one repository rest on and no event has named.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct StagedUpload {
    /// The name of its files, without an extension.
    pub(crate) pack: String,
    /// Of the pack and its index.
    pub(crate) bytes: u64,
    /// The network it came from; none where no bound applies to it.
    pub(crate) sender: Option<String>,
    pub(crate) tips: Vec<(RefName, Oid)>,
}

impl StagedUpload {
    /// What it takes of each share.
    pub(crate) fn quota(&self) -> Quota {
        Quota {
            bytes: self.bytes,
            refs: self.tips.len() as u64,
        }
    }
}

/// All staged uploads, as the records on disk say. Bounded by the budgets, and in number by the
/// refs that purgatory holds.
#[derive(Default)]
pub(crate) struct StagedUploads {
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    uploads: BTreeMap<RepoAddr, Vec<StagedUpload>>,
    shares: Shares,
    /// Whose contributor repositories have something, by identifier.
    contributors: BTreeMap<Identifier, BTreeSet<PublicKey>>,
}

impl StagedUploads {
    /// Counts an upload, if it fits.
    pub(crate) fn add(
        &self,
        repo: &RepoAddr,
        upload: StagedUpload,
        is_maintainer: bool,
        budgets: &StagingBudgets,
    ) -> Result<(), StagingFull> {
        let mut ledger = self.ledger.lock();
        let sender = Sender {
            network: upload.sender.clone(),
            is_maintainer,
        };
        ledger
            .shares
            .check(repo, &sender, upload.quota(), budgets)?;
        ledger.put(repo, upload);
        Ok(())
    }

    /// Counts an upload that is on disk, whether it fits or not.
    pub(crate) fn restore(&self, repo: &RepoAddr, upload: StagedUpload) {
        self.ledger.lock().put(repo, upload);
    }

    /// The bytes that still fit, or the budget that is used up.
    pub(crate) fn room(
        &self,
        repo: &RepoAddr,
        sender: &Sender,
        budgets: &StagingBudgets,
    ) -> Result<u64, StagingFull> {
        let ledger = self.ledger.lock();
        let least = Quota { bytes: 1, refs: 1 };
        ledger.shares.check(repo, sender, least, budgets)?;
        Ok(ledger.shares.room(repo, sender, budgets))
    }

    pub(crate) fn check(
        &self,
        repo: &RepoAddr,
        sender: &Sender,
        more: Quota,
        budgets: &StagingBudgets,
    ) -> Result<(), StagingFull> {
        let ledger = self.ledger.lock();
        ledger.shares.check(repo, sender, more, budgets)
    }

    /// The contributor repositories of an identifier that have something.
    pub(crate) fn contributors(&self, identifier: &Identifier) -> Vec<RepoAddr> {
        let ledger = self.ledger.lock();
        let signers = ledger.contributors.get(identifier).into_iter().flatten();
        let repo = |signer: &PublicKey| RepoAddr::contributor(*signer, identifier.clone());
        signers.map(repo).collect()
    }

    pub(crate) fn has_contributors(&self) -> bool {
        !self.ledger.lock().contributors.is_empty()
    }

    /// The identifiers of all contributor repositories.
    pub(crate) fn contributed(&self) -> Vec<Identifier> {
        self.ledger.lock().contributors.keys().cloned().collect()
    }

    pub(crate) fn of(&self, repo: &RepoAddr) -> Vec<StagedUpload> {
        let ledger = self.ledger.lock();
        ledger.uploads.get(repo).cloned().unwrap_or_default()
    }

    pub(crate) fn has(&self, repo: &RepoAddr) -> bool {
        self.ledger.lock().uploads.contains_key(repo)
    }

    /// The upload that `name` at `tip` rests on.
    pub(crate) fn find(&self, repo: &RepoAddr, name: &RefName, tip: &Oid) -> Option<StagedUpload> {
        let ledger = self.ledger.lock();
        let rests = |upload: &&StagedUpload| upload.tips.iter().any(|(n, t)| n == name && t == tip);
        ledger.uploads.get(repo)?.iter().find(rests).cloned()
    }

    /// The refs of a repository that rest on staged packs.
    pub(crate) fn tips(&self, repo: &RepoAddr) -> HashSet<(RefName, Oid)> {
        let uploads = self.of(repo).into_iter();
        uploads.flat_map(|upload| upload.tips).collect()
    }

    pub(crate) fn remove(&self, repo: &RepoAddr, pack: &str) {
        drop(self.ledger.lock().remove(repo, pack));
    }

    /// Puts an upload in the place of that with the same pack.
    pub(crate) fn replace(&self, repo: &RepoAddr, upload: StagedUpload) {
        let mut ledger = self.ledger.lock();
        if ledger.remove(repo, &upload.pack).is_some() {
            ledger.put(repo, upload);
        }
    }

    /// Replaces the refs that rest on an upload.
    pub(crate) fn set_tips(&self, repo: &RepoAddr, pack: &str, tips: Vec<(RefName, Oid)>) {
        let mut ledger = self.ledger.lock();
        if let Some(mut upload) = ledger.remove(repo, pack) {
            upload.tips = tips;
            ledger.put(repo, upload);
        }
    }

    pub(crate) fn totals(&self) -> StagedTotals {
        self.totals_of(|_| true)
    }

    /// What is staged in those repositories that `counts` names.
    pub(crate) fn totals_of(&self, counts: impl Fn(&RepoAddr) -> bool) -> StagedTotals {
        let ledger = self.ledger.lock();
        let uploads = ledger.uploads.iter().filter(|(repo, _)| counts(repo));
        let mut totals = StagedTotals::default();
        for upload in uploads.flat_map(|(_, uploads)| uploads) {
            totals.uploads += 1;
            totals.refs += upload.tips.len();
            totals.bytes += upload.bytes;
        }
        totals
    }
}

impl Ledger {
    fn put(&mut self, repo: &RepoAddr, upload: StagedUpload) {
        self.shares.add(repo, &upload);
        if repo.is_contributor() {
            let signers = self.contributors.entry(repo.identifier.clone());
            signers.or_default().insert(repo.owner);
        }
        self.uploads.entry(repo.clone()).or_default().push(upload);
    }

    fn remove(&mut self, repo: &RepoAddr, pack: &str) -> Option<StagedUpload> {
        let uploads = self.uploads.get_mut(repo)?;
        let at = uploads.iter().position(|upload| upload.pack == pack)?;
        let upload = uploads.swap_remove(at);
        if uploads.is_empty() {
            self.uploads.remove(repo);
            self.forget_contributor(repo);
        }
        self.shares.remove(repo, &upload);
        Some(upload)
    }

    /// A repository has nothing left.
    fn forget_contributor(&mut self, repo: &RepoAddr) {
        if repo.is_contributor()
            && let Some(signers) = self.contributors.get_mut(&repo.identifier)
        {
            signers.remove(&repo.owner);
            if signers.is_empty() {
                self.contributors.remove(&repo.identifier);
            }
        }
    }
}

/// The records of one repository.
pub(crate) struct Records {
    dir: PathBuf,
    root: PathBuf,
}

impl Records {
    pub(crate) fn new(root: &Path, repo: &RepoAddr) -> Self {
        let owner = records(root, repo.is_contributor()).join(repo.npub());
        Self {
            dir: owner.join(layout::directory(&repo.identifier)),
            root: root.to_owned(),
        }
    }

    /// Writes the record of an upload; durable on return.
    pub(crate) fn write(&self, upload: &StagedUpload) -> io::Result<()> {
        let write = || {
            disk::make_dirs(&self.root, &self.dir)?;
            disk::replace(&self.dir.join(&upload.pack), render(upload).as_bytes())
        };
        match write() {
            // Another repository of the owner has just removed their directory with its last record.
            Err(error) if disk::is_absent(&error) => write(),
            written => written,
        }
    }

    /// Removes records that a crash left half-written; only for the start.
    pub(crate) fn clean(&self) -> io::Result<()> {
        disk::remove_files(&self.dir, |name| {
            name.starts_with('.') && name.ends_with(".new")
        })
    }

    /// The names of the packs that have a record.
    pub(crate) fn packs(&self) -> io::Result<Vec<String>> {
        let entries = disk::entries(&self.dir)?.into_iter();
        let packs = entries.filter(|(name, kind)| kind.is_file() && name.starts_with("pack-"));
        Ok(packs.map(|(name, _)| name).collect())
    }

    /// The record of a pack, its bytes left at 0; `None` if it cannot be understood.
    pub(crate) fn read(&self, pack: &str) -> io::Result<Option<StagedUpload>> {
        let record = disk::read(&self.dir.join(pack))?.unwrap_or_default();
        Ok(parse(pack, &record))
    }

    /// Removes a record, and the directories that have none left.
    pub(crate) fn remove(&self, pack: &str) -> io::Result<()> {
        disk::remove_file(&self.dir.join(pack))?;
        let is_last = fs::remove_dir(&self.dir).is_ok();
        if is_last && let Some(owner) = self.dir.parent() {
            // Another repository of the owner may have records.
            let _ = fs::remove_dir(owner);
        }
        Ok(())
    }
}

/// Where the records are.
fn records(root: &Path, of_contributors: bool) -> PathBuf {
    let staged = root.join(".staged");
    if of_contributors {
        staged.join(layout::CONTRIBUTORS)
    } else {
        staged
    }
}

/// The repositories that have records, as far as their names can be read.
pub(crate) fn recorded(root: &Path) -> io::Result<Vec<RepoAddr>> {
    let mut found = Vec::new();
    for (of_contributors, addr) in [
        (
            false,
            RepoAddr::new as fn(PublicKey, Identifier) -> RepoAddr,
        ),
        (true, RepoAddr::contributor),
    ] {
        let staged = records(root, of_contributors);
        for (npub, _) in disk::entries(&staged)? {
            let Some(owner) = RepoAddr::parse_npub(&npub) else {
                continue;
            };
            let names = disk::entries(&staged.join(&npub))?.into_iter();
            let identifiers = names.filter_map(|(name, _)| layout::identifier_of(&name));
            found.extend(identifiers.map(|identifier| addr(owner, identifier)));
        }
    }
    Ok(found)
}

fn render(upload: &StagedUpload) -> String {
    let sender = upload.sender.as_ref();
    let mut text = sender.map_or_else(String::new, |sender| format!("{SENDER}{sender}\n"));
    for (name, tip) in &upload.tips {
        text.push_str(&format!("{tip} {name}\n"));
    }
    text
}

fn parse(pack: &str, record: &[u8]) -> Option<StagedUpload> {
    let text = std::str::from_utf8(record).ok()?;
    let mut upload = StagedUpload {
        pack: pack.to_owned(),
        bytes: 0,
        sender: None,
        tips: Vec::new(),
    };
    for line in text.lines() {
        if let Some(sender) = line.strip_prefix(SENDER) {
            upload.sender = Some(sender.to_owned());
        } else {
            let (tip, name) = line.split_once(' ')?;
            upload
                .tips
                .push((RefName::parse(name).ok()?, tip.parse().ok()?));
        }
    }
    (!upload.tips.is_empty()).then_some(upload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(name: &str) -> RepoAddr {
        let npub = "npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d";
        RepoAddr::from_segments(npub, &format!("{name}.git")).unwrap()
    }

    fn upload(pack: &str, bytes: u64, sender: Option<&str>) -> StagedUpload {
        let name = RefName::parse(&format!("refs/nostr/{}", "ab".repeat(32))).unwrap();
        StagedUpload {
            pack: pack.to_owned(),
            bytes,
            sender: sender.map(str::to_owned),
            tips: vec![(name, "cd".repeat(20).parse().unwrap())],
        }
    }

    const SMALL: StagingBudgets = StagingBudgets {
        per_address: 100,
        per_identifier: 1_000,
        contributors: ContributorQuotas {
            per_address: Quota {
                bytes: 100,
                refs: 2,
            },
            per_key: Quota {
                bytes: 300,
                refs: 12,
            },
            per_target: Quota {
                bytes: 10_000,
                refs: 100,
            },
        },
    };

    fn of(network: &str) -> Sender {
        Sender::of_network(network)
    }

    #[test]
    fn a_contributor_uses_up_shares_of_address_key_and_target() {
        let staged = StagedUploads::default();
        let a = repo("a");
        let contributor = RepoAddr::contributor(a.owner, a.identifier.clone());
        let other = RepoAddr::contributor(a.owner, repo("b").identifier);
        let put = |repo, pack, bytes, sender| {
            staged.add(repo, upload(pack, bytes, sender), false, &SMALL)
        };
        put(&a, "0", 90, Some("x")).unwrap();
        put(&contributor, "1", 40, Some("x")).unwrap();
        let full = put(&contributor, "2", 61, Some("x")).unwrap_err();
        assert!(matches!(full.budget, StagingBudget::ContributorAddress(_)));
        put(&other, "2", 10, Some("x")).unwrap();
        let full = put(&other, "3", 1, Some("x")).unwrap_err();
        assert_eq!((full.unit, full.limit), (Unit::Refs, 2));
        assert!(full.to_string().contains("2 refs below /prs/"), "{full}");
        let full = put(&other, "3", 63, Some("y")).unwrap_err();
        assert!(matches!(full.budget, StagingBudget::Key(_)) && full.is_share);
        assert!(full.to_string().contains("below this npub"), "{full}");
        assert_eq!(staged.room(&other, &of("y"), &SMALL), Ok(62));
        assert_eq!(
            staged.contributors(&a.identifier),
            std::slice::from_ref(&contributor)
        );
        for (repo, pack) in [(&a, "0"), (&contributor, "1"), (&other, "2")] {
            staged.remove(repo, pack);
        }
        assert!(staged.contributed().is_empty());
        assert_eq!(staged.room(&other, &of("y"), &SMALL), Ok(75));
    }

    #[test]
    fn each_budget_is_the_share_of_its_own_key() {
        let staged = StagedUploads::default();
        let (a, b) = (repo("a"), repo("b"));
        let put = |repo, pack, bytes, sender| {
            staged.add(repo, upload(pack, bytes, sender), false, &SMALL)
        };
        put(&a, "1", 90, Some("x")).unwrap();
        let full = put(&b, "2", 11, Some("x")).unwrap_err();
        assert!(matches!(full.budget, StagingBudget::Address(_)));
        assert_eq!(full.used, 90);
        assert!(full.to_string().contains("from your address"), "{full}");
        put(&a, "2", 800, None).unwrap();
        let full = put(&a, "3", 111, None).unwrap_err();
        assert!(matches!(full.budget, StagingBudget::Identifier(_)) && !full.is_share);
        assert!(full.to_string().contains("named a"), "{full}");
        assert!(staged.room(&a, &of("x"), &SMALL).is_err());
        assert_eq!(staged.room(&a, &of("y"), &SMALL), Ok(27));
        assert_eq!(staged.room(&b, &of("x"), &SMALL), Ok(10));
        assert_eq!(staged.room(&b, &of("y"), &SMALL), Ok(100));
        assert_eq!(staged.room(&b, &Sender::default(), &SMALL), Ok(1_000));
    }

    /// Whose share the uploads to one name are: each network's a quarter of what is free.
    #[test]
    fn networks_that_stage_all_they_may_leave_room_to_the_next_and_all_to_a_maintainer() {
        let budgets = StagingBudgets {
            per_address: 1_000,
            ..SMALL
        };
        let (staged, a) = (StagedUploads::default(), repo("a"));
        for network in 0..4 {
            let sender = network.to_string();
            // In several pushes: what came before counts.
            for n in 0.. {
                let next = upload(&format!("{network}-{n}"), 10, Some(&sender));
                if let Err(full) = staged.add(&a, next, false, &budgets) {
                    assert!(
                        full.is_share && full.to_string().contains("your address"),
                        "{full}"
                    );
                    break;
                }
            }
        }
        assert_eq!(staged.totals().bytes, 590);
        assert_eq!(staged.room(&a, &of("next"), &budgets), Ok(102));
        let maintainer = Sender {
            is_maintainer: true,
            ..of("3")
        };
        let room = staged.room(&a, &maintainer, &budgets).unwrap();
        assert_eq!(room, 1_000 - 590);
        let own = upload("own", room, Some("3"));
        staged.add(&a, own, true, &budgets).unwrap();
    }

    /// Four networks closed a key by refs of a few bytes, and thirty-two of them a target.
    #[test]
    fn refs_of_many_networks_close_neither_a_key_nor_a_target() {
        let budgets = StagingBudgets::default();
        let a = repo("a");
        let staged = StagedUploads::default();
        let fill = |repo: &RepoAddr, network: u8| {
            let sender = network.to_string();
            let uploads = (0..64).map(|n| upload(&format!("{network}-{n}"), 10, Some(&sender)));
            for next in uploads {
                if staged.add(repo, next, false, &budgets).is_err() {
                    break;
                }
            }
        };
        let of_key = RepoAddr::contributor(a.owner, a.identifier.clone());
        for network in 0..4 {
            fill(&of_key, network);
        }
        assert!(staged.room(&of_key, &of("next"), &budgets).is_ok());
        for network in 4..40 {
            let owner = PublicKey::from_byte_array([network; 32]);
            fill(&RepoAddr::contributor(owner, a.identifier.clone()), network);
        }
        let honest = RepoAddr::contributor(PublicKey::from_byte_array([99; 32]), a.identifier);
        assert!(staged.room(&honest, &of("next"), &budgets).is_ok());
    }

    #[test]
    fn what_is_removed_leaves_no_trace() {
        let staged = StagedUploads::default();
        let a = repo("a");
        for (pack, bytes, sender) in [("1", 90, Some("x")), ("2", 60, Some("y"))] {
            let upload = upload(pack, bytes, sender);
            staged.add(&a, upload, false, &SMALL).unwrap();
        }
        assert_eq!(
            staged.totals(),
            StagedTotals {
                uploads: 2,
                refs: 2,
                bytes: 150
            }
        );
        for pack in ["1", "2", "2", "3"] {
            staged.remove(&a, pack);
        }
        assert_eq!(staged.totals(), StagedTotals::default());
        let ledger = staged.ledger.lock();
        assert!(ledger.uploads.is_empty() && ledger.shares.is_empty());
    }

    #[test]
    fn a_record_says_all_that_a_restart_needs() {
        for sender in [None, Some("2001:db8::")] {
            let written = upload("pack-1", 0, sender);
            assert_eq!(parse("pack-1", render(&written).as_bytes()), Some(written));
        }
        assert_eq!(parse("pack-1", b""), None);
        assert_eq!(parse("pack-1", b"from x\nnonsense"), None);
    }
}
