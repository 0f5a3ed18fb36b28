//! Uploads that no event names: kept for one repository, promoted, and gone with their last ref.

use std::sync::atomic::Ordering::Relaxed;

use grip_git::{
    Caps, GitService, Protocol, Quarantine, Sender, StageError, StagedTotals, StagingBudgets,
};
use grip_types::{Oid, RefName, RepoAddr};

use crate::support::*;

const SENDER: &str = "192.0.2.7";

fn nostr(digits: &str) -> String {
    format!("refs/nostr/{}", digits.repeat(32))
}

/// What is new in `tips`, cut for one repository alone.
async fn upload(sandbox: &Sandbox, repo: &RepoAddr, work: &Work, tips: &[Oid]) -> Quarantine {
    let wanted: String = tips.iter().map(|tip| format!("{tip}\n")).collect();
    let pack = work.pack(&format!("{wanted}^main~1\n"), &[]);
    let received = sandbox.receive(repo, &pack).await.unwrap();
    let (signed, staged) = received.split(&[], tips).await.unwrap();
    assert!(signed.is_empty());
    staged
}

/// Stages tips and sets their refs, as a push does.
async fn stage(sandbox: &Sandbox, repo: &RepoAddr, work: &Work, tips: &[(String, Oid)]) {
    let oids: Vec<Oid> = tips.iter().map(|(_, tip)| *tip).collect();
    let staged = upload(sandbox, repo, work, &oids).await;
    let named: Vec<(RefName, Oid)> = tips.iter().map(|(n, tip)| (name(n), *tip)).collect();
    let sender = Sender::of_network(SENDER);
    staged.stage(repo, named, sender).unwrap();
    let edits: Vec<_> = tips.iter().map(|(n, tip)| set(n, *tip)).collect();
    sandbox.set(repo, &edits).unwrap();
}

/// A published history and a commit on top of it that is not.
async fn scene() -> (Sandbox, RepoAddr, Work, Oid) {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    work.git(&["checkout", "-q", "--detach"]);
    let tip = work.commit("proposal.txt", "of a stranger\n");
    (sandbox, repo, work, tip)
}

fn has(sandbox: &Sandbox, repo: &RepoAddr, oid: Oid) -> bool {
    let oid = oid.to_hex();
    try_git(&sandbox.path(repo), &["cat-file", "-e", &oid], b"")
        .0
        .is_some()
}

fn own_packs(sandbox: &Sandbox, repo: &RepoAddr) -> Vec<String> {
    names_in(&sandbox.path(repo).join("objects/pack"))
}

/// Neither bytes nor records are left.
fn assert_nothing_is_staged(sandbox: &Sandbox, repo: &RepoAddr) {
    assert_eq!(sandbox.staged_totals(), StagedTotals::default());
    assert_eq!(own_packs(sandbox, repo), [""; 0]);
    assert_eq!(names_in(&sandbox.root().join(".staged")), [""; 0]);
    sandbox.assert_quarantine_is_empty();
}

#[tokio::test]
async fn staged_objects_are_readable_in_their_repository_alone() {
    let (sandbox, repo, work, tip) = scene().await;
    let sibling = crate::support::repo(BOB, "project");
    sandbox.create(&sibling).unwrap();
    let packs = sandbox.packs(&repo.identifier);
    let name_of = nostr("ab");
    stage(&sandbox, &repo, &work, &[(name_of.clone(), tip)]).await;

    assert!(has(&sandbox, &repo, tip) && !has(&sandbox, &sibling, tip));
    assert_eq!(sandbox.kind(&repo, tip), None, "it is in no store");
    assert_eq!(sandbox.packs(&repo.identifier), packs);
    let tips = sandbox.known_tips(&repo.identifier, 99).unwrap();
    assert!(!tips.contains(&tip), "it is not offered to other servers");
    assert!(sandbox.is_staged(&repo, &name(&name_of), &tip));
    assert!(!sandbox.is_staged(&sibling, &name(&name_of), &tip));
    let totals = sandbox.staged_totals();
    assert_eq!((totals.uploads, totals.refs), (1, 1));
    assert_fsck_is_clean(&sandbox.path(&repo));

    let refs = sandbox.refs(&repo).unwrap();
    let shown = |service| {
        let bytes = refs.advertisement(service, Protocol::V0);
        String::from_utf8_lossy(&bytes).contains(&name_of)
    };
    assert!(shown(GitService::UploadPack) && !shown(GitService::ReceivePack));
}

#[tokio::test]
async fn a_promoted_upload_is_part_of_the_store() {
    let (sandbox, repo, work, tip) = scene().await;
    let name_of = nostr("ab");
    stage(&sandbox, &repo, &work, &[(name_of.clone(), tip)]).await;
    let promoted = sandbox.promote_staged(&repo, &name(&name_of), &tip).await;
    assert!(promoted.unwrap());
    assert!(sandbox.kind(&repo, tip).is_some());
    assert_nothing_is_staged(&sandbox, &repo);
    assert_fsck_is_clean(&sandbox.path(&repo));
    let again = sandbox.promote_staged(&repo, &name(&name_of), &tip).await;
    assert!(!again.unwrap(), "there is nothing left to promote");
    // The ref goes, the objects stay.
    sandbox.set(&repo, &[delete(&name_of)]).unwrap();
    assert!(sandbox.kind(&repo, tip).is_some());
}

#[tokio::test]
async fn an_upload_goes_with_its_last_ref() {
    let (sandbox, repo, work, tip) = scene().await;
    let (a, b) = (nostr("ab"), nostr("cd"));
    stage(
        &sandbox,
        &repo,
        &work,
        &[(a.clone(), tip), (b.clone(), tip)],
    )
    .await;
    sandbox.set(&repo, &[delete(&a)]).unwrap();
    assert!(has(&sandbox, &repo, tip));
    // Another commit under the same name, and nothing rests on the first.
    let next = work.commit("proposal.txt", "once more\n");
    stage(&sandbox, &repo, &work, &[(b.clone(), next)]).await;
    assert_eq!(sandbox.staged_totals().uploads, 1);
    sandbox.set(&repo, &[delete(&b)]).unwrap();
    assert!(!has(&sandbox, &repo, tip) && !has(&sandbox, &repo, next));
    assert_nothing_is_staged(&sandbox, &repo);
}

#[tokio::test]
async fn of_two_tips_in_one_pack_only_the_named_one_is_promoted() {
    let (sandbox, repo, work, tip) = scene().await;
    work.git(&["checkout", "-q", "main"]);
    work.git(&["checkout", "-q", "--detach"]);
    let other = work.commit("other.txt", "of another\n");
    let (a, b) = (nostr("ab"), nostr("cd"));
    stage(
        &sandbox,
        &repo,
        &work,
        &[(a.clone(), tip), (b.clone(), other)],
    )
    .await;
    assert!(
        sandbox
            .promote_staged(&repo, &name(&a), &tip)
            .await
            .unwrap()
    );
    assert!(sandbox.kind(&repo, tip).is_some() && sandbox.kind(&repo, other).is_none());
    assert!(sandbox.is_staged(&repo, &name(&b), &other));
    assert_fsck_is_clean(&sandbox.path(&repo));
    sandbox.set(&repo, &[delete(&b)]).unwrap();
    assert!(!has(&sandbox, &repo, other));
    assert_nothing_is_staged(&sandbox, &repo);
}

#[tokio::test]
async fn a_restart_keeps_what_has_a_ref_and_removes_the_rest() {
    let (mut sandbox, repo, work, tip) = scene().await;
    let name_of = nostr("ab");
    stage(&sandbox, &repo, &work, &[(name_of.clone(), tip)]).await;
    let before = sandbox.staged_totals();
    // Cut before its ref was set.
    let next = work.commit("proposal.txt", "once more\n");
    let cut = upload(&sandbox, &repo, &work, &[next]).await;
    cut.stage(&repo, vec![(name(&nostr("cd")), next)], Sender::default())
        .unwrap();
    assert!(has(&sandbox, &repo, next));

    sandbox.reopen();
    assert_eq!(sandbox.staged_totals(), before);
    assert!(has(&sandbox, &repo, tip) && !has(&sandbox, &repo, next));
    assert_eq!(own_packs(&sandbox, &repo).len(), 2, "a pack and its index");
    let room = |network| sandbox.staging_room(&repo, &Sender::of_network(network));
    let free = StagingBudgets::default().per_identifier - before.bytes;
    assert_eq!(room(SENDER), Ok(free / 4 - before.bytes));
    assert_eq!(room("192.0.2.8"), Ok(free / 4));
    assert!(
        sandbox
            .promote_staged(&repo, &name(&name_of), &tip)
            .await
            .unwrap()
    );
    assert_nothing_is_staged(&sandbox, &repo);
}

#[tokio::test]
async fn a_crash_between_promotion_and_cleaning_up_is_finished_at_the_next_start() {
    let (mut sandbox, repo, work, tip) = scene().await;
    stage(&sandbox, &repo, &work, &[(nostr("ab"), tip)]).await;
    let pack = work.pack(&format!("{tip}\n^main\n"), &[]);
    sandbox.promote(&repo, &pack).await;
    sandbox.reopen();
    assert!(sandbox.kind(&repo, tip).is_some());
    assert_nothing_is_staged(&sandbox, &repo);
    assert_fsck_is_clean(&sandbox.path(&repo));
}

#[tokio::test]
async fn what_does_not_fit_leaves_nothing_and_names_the_budget() {
    for (budgets, part) in [
        (
            StagingBudgets {
                per_address: 100,
                per_identifier: 1 << 20,
                ..StagingBudgets::default()
            },
            "from your address",
        ),
        (
            StagingBudgets {
                per_address: 1 << 20,
                per_identifier: 100,
                ..StagingBudgets::default()
            },
            "named project",
        ),
    ] {
        let work = Work::example();
        let sandbox = Sandbox::with(|options| options.staging = budgets);
        let repo = crate::support::repo(ALICE, "project");
        sandbox.create(&repo).unwrap();
        sandbox.publish(&repo, &work).await;
        let tip = work.commit("proposal.txt", "of a stranger\n");
        let staged = upload(&sandbox, &repo, &work, &[tip]).await;
        let tips = vec![(name(&nostr("ab")), tip)];
        let full = staged
            .stage(&repo, tips, Sender::of_network(SENDER))
            .unwrap_err();
        assert!(matches!(full, StageError::Full(_)), "{full}");
        assert!(full.to_string().contains(part), "{full}");
        assert_nothing_is_staged(&sandbox, &repo);
    }
}

#[tokio::test]
async fn what_is_staged_is_not_archived() {
    let (sandbox, repo, work, tip) = scene().await;
    let name_of = nostr("ab");
    stage(&sandbox, &repo, &work, &[(name_of.clone(), tip)]).await;
    sandbox.archive(&repo, 7).unwrap();
    assert_nothing_is_staged(&sandbox, &repo);
    assert!(sandbox.restore(&repo).unwrap());
    let refs = sandbox.refs(&repo).unwrap();
    assert!(refs.get(&name(&name_of)).is_none() && refs.get(&name("refs/heads/main")).is_some());
    assert_fsck_is_clean(&sandbox.path(&repo));
}

#[tokio::test]
async fn a_repository_with_nothing_but_staged_refs_counts_as_empty() {
    let (sandbox, repo) = empty();
    let work = Work::example();
    work.git(&["checkout", "-q", "--detach"]);
    let tip = work.commit("proposal.txt", "of a stranger\n");
    let pack = work.pack(&format!("{tip}\n"), &[]);
    let received = sandbox.receive(&repo, &pack).await.unwrap();
    let (_, staged) = received.split(&[], &[tip]).await.unwrap();
    staged
        .stage(&repo, vec![(name(&nostr("ab")), tip)], Sender::default())
        .unwrap();
    sandbox.set(&repo, &[set(&nostr("ab"), tip)]).unwrap();
    assert!(sandbox.remove_empty(&repo).unwrap());
    assert_nothing_is_staged(&sandbox, &repo);
}

#[tokio::test]
async fn a_pack_for_both_is_divided() {
    let (sandbox, repo, work, tip) = scene().await;
    work.git(&["checkout", "-q", "main"]);
    let signed = work.commit("signed.txt", "named by a state\n");
    let loose = work.write_object("blob", b"nobody asked for this");
    let listed = work.git(&[
        "rev-list",
        "--objects",
        "--no-object-names",
        "--all",
        &tip.to_hex(),
    ]);
    let mut all: Vec<Oid> = listed.lines().map(|line| line.parse().unwrap()).collect();
    all.push(loose);
    let received = sandbox.receive(&repo, &work.pack_of(&all)).await.unwrap();
    let (store, own) = received.split(&[signed], &[tip]).await.unwrap();
    assert!(
        store
            .kinds(&[tip, loose])
            .unwrap()
            .iter()
            .all(Option::is_none)
    );
    assert!(
        own.kinds(&[signed, loose])
            .unwrap()
            .iter()
            .all(Option::is_none)
    );
    store.promote().unwrap();
    own.stage(&repo, vec![(name(&nostr("ab")), tip)], Sender::default())
        .unwrap();
    let edits = [set("refs/heads/main", signed), set(&nostr("ab"), tip)];
    sandbox.set(&repo, &edits).unwrap();
    assert!(sandbox.kind(&repo, signed).is_some() && sandbox.kind(&repo, tip).is_none());
    assert_fsck_is_clean(&sandbox.path(&repo));
}

/// A contributor repository, and a complete pack for it.
async fn contribute(sandbox: &Sandbox, repo: &RepoAddr, work: &Work, tip: Oid, n: &str) {
    contribute_from(sandbox, repo, work, tip, n, SENDER).await;
}

async fn contribute_from(
    sandbox: &Sandbox,
    repo: &RepoAddr,
    work: &Work,
    tip: Oid,
    n: &str,
    sender: &str,
) {
    let pack = work.pack(&format!("{tip}\n"), &[]);
    let caps = Caps {
        max_pack_bytes: 1 << 30,
        stall: std::time::Duration::from_secs(60),
        payer: grip_git::Payer::Unknown,
        progress: None,
        disk_user: grip_git::DiskUser::Maintainer,
    };
    let received = sandbox.receive_apart(&repo.identifier, &pack[..], caps);
    let (signed, staged) = received.await.unwrap().split(&[], &[tip]).await.unwrap();
    assert!(signed.is_empty() && !staged.is_empty());
    let tips = vec![(name(n), tip)];
    staged
        .stage(repo, tips, Sender::of_network(sender))
        .unwrap();
    sandbox.set(repo, &[set(n, tip)]).unwrap();
}

/// G06-10: it rests on nothing that is here, and goes with its last ref.
#[tokio::test]
async fn a_contributor_repository_is_whole_in_itself_and_gone_when_it_is_empty() {
    let (mut sandbox, hosted, work, tip) = scene().await;
    let repo = RepoAddr::contributor(hosted.owner, hosted.identifier.clone());
    assert!(sandbox.refs(&repo).unwrap().is_empty() && !sandbox.exists(&repo));
    let (one, two) = (nostr("ab"), nostr("cd"));
    contribute(&sandbox, &repo, &work, tip, &one).await;
    contribute(&sandbox, &repo, &work, tip, &two).await;
    let path = sandbox.root().join(".prs").join(repo.npub());
    let path = path.join("project.git");
    assert_fsck_is_clean(&path);
    let oid = tip.to_hex();
    assert!(
        try_git(&path, &["rev-list", "--objects", &oid], b"")
            .0
            .is_some()
    );
    assert!(!has(&sandbox, &hosted, tip), "no other repository reads it");
    assert_eq!(
        sandbox.contributors(&repo.identifier),
        std::slice::from_ref(&repo)
    );
    assert_eq!(sandbox.list().unwrap(), std::slice::from_ref(&hosted));

    sandbox.reopen();
    assert_eq!(sandbox.refs(&repo).unwrap().len(), 2);
    let totals = sandbox.staged_totals();
    assert_eq!((totals.uploads, totals.refs), (1, 2));
    let first = name(&one);
    let mirrored = sandbox.prepare_staged_for(&hosted.identifier, &repo, &first, &tip);
    mirrored.await.unwrap().expect("staged").promote().unwrap();
    assert!(has(&sandbox, &hosted, tip) && sandbox.is_staged(&repo, &first, &tip));
    sandbox.reopen();
    assert_eq!(
        sandbox.refs(&repo).unwrap().len(),
        2,
        "a mirror takes nothing away"
    );

    for gone in [&one, &two] {
        assert!(path.exists());
        sandbox.set(&repo, &[delete(gone)]).unwrap();
        let left = usize::from(gone == &one);
        assert_eq!(
            sandbox.contributor_totals().refs,
            left,
            "each ref frees its share"
        );
    }
    assert!(!path.exists() && sandbox.refs(&repo).unwrap().is_empty());
    assert_eq!(sandbox.staged_totals(), StagedTotals::default());
    assert!(has(&sandbox, &hosted, tip), "what was mirrored stays");
}

/// G01-112: no client is shown it, what it rests on stays and counts, and it can be shown again.
#[tokio::test]
async fn a_hidden_tip_of_a_contributor_keeps_its_objects_until_it_is_shown_or_dropped() {
    let (mut sandbox, hosted, work, tip) = scene().await;
    let repo = RepoAddr::contributor(hosted.owner, hosted.identifier.clone());
    let (one, two) = (nostr("ab"), nostr("cd"));
    contribute(&sandbox, &repo, &work, tip, &one).await;
    contribute(&sandbox, &repo, &work, tip, &two).await;
    sandbox.hide_tip(&repo, &name(&one), 7).unwrap();
    sandbox.hide_tip(&repo, &name(&two), 7).unwrap();
    sandbox.hide_tip(&repo, &name(&two), 8).unwrap();
    sandbox.reopen();
    assert!(sandbox.refs(&repo).unwrap().is_empty());
    let hidden = sandbox.hidden_tips(&repo).unwrap();
    assert_eq!(hidden, [(name(&one), tip), (name(&two), tip)]);
    assert_eq!(sandbox.contributor_totals().refs, 2, "still its share");
    let path = sandbox.root().join(".prs").join(repo.npub());
    let path = path.join("project.git");
    assert_fsck_is_clean(&path);

    sandbox.show_tip(&repo, &name(&one)).unwrap();
    sandbox.show_tip(&repo, &name(&one)).unwrap();
    let shown = sandbox.refs(&repo).unwrap();
    assert_eq!(shown.get(&name(&one)).unwrap().oid, tip);
    assert!(sandbox.is_staged(&repo, &name(&one), &tip));
    sandbox.drop_hidden_tip(&repo, &name(&two)).unwrap();
    sandbox.drop_hidden_tip(&repo, &name(&two)).unwrap();
    assert_eq!(sandbox.contributor_totals().refs, 1);
    sandbox.hide_tip(&repo, &name(&one), 9).unwrap();
    sandbox.drop_hidden_tip(&repo, &name(&one)).unwrap();
    assert!(!path.exists() && sandbox.hidden_tips(&repo).unwrap().is_empty());
    assert_eq!(sandbox.staged_totals(), StagedTotals::default());
}

/// Below `/prs/` each ref counts against the key that adds it: another ref at objects that somebody else has
/// sent takes all of them over.
#[tokio::test]
async fn a_ref_that_another_adds_is_no_share_of_the_first_sender() {
    let (sandbox, hosted, work, tip) = scene().await;
    let repo = RepoAddr::contributor(hosted.owner, hosted.identifier.clone());
    let room = |sender| {
        let sender = Sender::of_network(sender);
        sandbox.staging_room(&repo, &sender).unwrap()
    };
    let (other, all) = ("198.51.100.9", room(SENDER));
    contribute(&sandbox, &repo, &work, tip, &nostr("ab")).await;
    assert!(room(SENDER) < all);
    contribute_from(&sandbox, &repo, &work, tip, &nostr("cd"), other).await;
    assert!(room(other) < all && room(SENDER) == all);
    assert_eq!(sandbox.contributor_totals().refs, 2);
}

/// A backup has the pull requests of contributors too, with the records of whose share they are.
#[tokio::test]
async fn a_frozen_tree_has_contributor_repositories() {
    let (sandbox, hosted, work, tip) = scene().await;
    let repo = RepoAddr::contributor(hosted.owner, hosted.identifier.clone());
    contribute(&sandbox, &repo, &work, tip, &nostr("ab")).await;
    let kept = sandbox.keep_objects().unwrap();
    let progress = grip_git::FreezeProgress::default();
    let frozen = sandbox.freeze(&kept, &progress).unwrap();
    let [trees, total] = [&progress.trees, &progress.total_trees].map(|it| it.load(Relaxed));
    assert!(trees == total && total > 1, "{progress:?}");
    let copy = frozen
        .git
        .join(".prs")
        .join(repo.npub())
        .join("project.git");
    assert_fsck_is_clean(&copy);
    let oid = tip.to_hex();
    assert!(try_git(&copy, &["cat-file", "-e", &oid], b"").0.is_some());
    // As a restored tree it opens with the ref and the upload.
    drop(kept);
    let restored = tempfile::tempdir().unwrap();
    let place = restored.path().join("git");
    std::fs::rename(&frozen.git, &place).unwrap();
    let opened = grip_git::Repositories::open(grip_git::Options::new(&place)).unwrap();
    assert_eq!(opened.refs(&repo).unwrap().len(), 1);
    assert_eq!(opened.staged_totals().refs, 1);
}

/// A pack that leans on objects of the hosted repository is refused for a contributor.
#[tokio::test]
async fn a_contributors_pack_must_be_complete() {
    let (sandbox, hosted, work, tip) = scene().await;
    let pack = work.pack(&format!("{tip}\n^main~1\n"), &[]);
    let caps = Caps {
        max_pack_bytes: 1 << 30,
        stall: std::time::Duration::from_secs(60),
        payer: grip_git::Payer::Unknown,
        progress: None,
        disk_user: grip_git::DiskUser::Maintainer,
    };
    let received = sandbox.receive_apart(&hosted.identifier, &pack[..], caps);
    assert!(received.await.is_err());
    sandbox.assert_quarantine_is_empty();
}
