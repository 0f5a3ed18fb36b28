//! Ref transactions, compared with git.

use std::collections::BTreeMap;

use grip_git::{ObjectKind, RefUpdateError};
use grip_types::{Oid, RefEdit, RefName};

use crate::support::*;

#[tokio::test]
async fn git_reads_the_same_refs_as_we_do() {
    let work = Work::example();
    let (mut sandbox, repo) = Sandbox::published(&work).await;
    let path = sandbox.path(&repo);
    for _ in 0..2 {
        let refs = sandbox.refs(&repo).unwrap();
        assert_eq!(refs_by_us(&refs), refs_by_git(&path));
        assert_eq!(refs_by_us(&refs), refs_by_git(work.dir.path()));
        let tag = refs.get(&name("refs/tags/v1-again")).unwrap();
        assert_eq!(tag.peeled, Some(work.oid("v1^{commit}")));
        assert_eq!(refs.head_ref().unwrap().oid, work.oid("main"));
        assert_eq!(
            git(&path, &["rev-parse", "HEAD"]),
            work.oid("main").to_hex()
        );
        sandbox.reopen();
    }
    assert_fsck_is_clean(&path);
    assert_eq!(names_in(&path.join("refs")), [""; 0]);
}

#[tokio::test]
async fn head_follows_and_only_branches_can_be_head() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let dev = name("refs/heads/dev");
    let refs = sandbox.update_refs(&repo, &[], Some(&dev)).unwrap();
    assert_eq!(refs.head(), Some(&dev));
    assert_eq!(
        git(&sandbox.path(&repo), &["symbolic-ref", "HEAD"]),
        "refs/heads/dev"
    );
    let tag = name("refs/tags/v1");
    let refused = sandbox.update_refs(&repo, &[], Some(&tag));
    assert!(matches!(refused, Err(RefUpdateError::Head(_))));
}

#[tokio::test]
async fn one_bad_edit_stops_them_all() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let before = refs_by_git(&sandbox.path(&repo));
    let (main, dev) = (work.oid("main"), work.oid("dev"));
    let blob = work.oid("main:a.txt");
    let good = set("refs/heads/new", main);
    let stale = RefEdit {
        old: Some(dev),
        ..set("refs/heads/main", dev)
    };
    let taken = RefEdit {
        old: None,
        ..set("refs/heads/main", dev)
    };
    let gone = RefEdit {
        old: Some(dev),
        ..delete("refs/heads/absent")
    };
    let missing: Oid = "ab".repeat(20).parse().unwrap();
    type Check = fn(&RefUpdateError) -> bool;
    let cases: [(RefEdit, Check); 9] = [
        (stale, |e| matches!(e, RefUpdateError::Stale { .. })),
        (taken, |e| matches!(e, RefUpdateError::Stale { .. })),
        (gone, |e| matches!(e, RefUpdateError::Stale { .. })),
        (good.clone(), |e| matches!(e, RefUpdateError::Duplicate(_))),
        (set("refs/heads/main/x", main), |e| {
            matches!(e, RefUpdateError::Conflict(..))
        }),
        (set("refs/heads/new/x/y", main), |e| {
            matches!(e, RefUpdateError::Conflict(..))
        }),
        (set("refs/heads/b", missing), |e| {
            matches!(e, RefUpdateError::Missing { .. })
        }),
        (set("refs/heads/b", blob), |e| {
            matches!(e, RefUpdateError::NotACommit { .. })
        }),
        (set("refs/heads/b", work.oid("v1")), |e| {
            matches!(e, RefUpdateError::NotACommit { .. })
        }),
    ];
    for (bad, expected) in cases {
        let edits = [good.clone(), bad.clone()];
        let error = sandbox.repositories.update_refs(&repo, &edits, None);
        let error = error.unwrap_err();
        assert!(expected(&error), "{bad:?}: {error}");
        assert_eq!(refs_by_git(&sandbox.path(&repo)), before);
    }
    sandbox.set(&repo, &[set("refs/tags/blob", blob)]).unwrap();
}

#[tokio::test]
async fn a_branch_may_become_a_directory_of_branches_in_one_step() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let edits = [
        delete("refs/heads/dev"),
        set("refs/heads/dev/x", work.oid("dev")),
    ];
    let refs = sandbox.set(&repo, &edits).unwrap();
    assert!(refs.get(&name("refs/heads/dev/x")).is_some());
    assert_eq!(refs_by_us(&refs), refs_by_git(&sandbox.path(&repo)));
    // `dev-2` sorts between `dev` and `dev/x`.
    sandbox
        .set(&repo, &[set("refs/heads/dev-2", work.oid("dev"))])
        .unwrap();
    let refused = sandbox.set(&repo, &[set("refs/heads/dev", work.oid("dev"))]);
    assert!(matches!(refused, Err(RefUpdateError::Conflict(..))));
}

#[tokio::test]
async fn deleting_what_is_not_there_and_setting_what_is_change_nothing() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let before = sandbox.refs(&repo).unwrap();
    let edits = [
        delete("refs/heads/absent"),
        set("refs/heads/main", work.oid("main")),
    ];
    let after = sandbox.set(&repo, &edits).unwrap();
    assert!(std::sync::Arc::ptr_eq(&before, &after));
}

#[tokio::test]
async fn twenty_thousand_refs_are_one_update() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let main = work.oid("main");
    let edits: Vec<RefEdit> = (0..20_000)
        .map(|n| set(&format!("refs/heads/many/{n:05}"), main))
        .collect();
    let started = std::time::Instant::now();
    let refs = sandbox.set(&repo, &edits).unwrap();
    println!("20,000 refs in {:?}", started.elapsed());
    assert_eq!(refs_by_us(&refs), refs_by_git(&sandbox.path(&repo)));
    let gone: Vec<RefEdit> = edits.iter().map(|e| delete(e.name.as_str())).collect();
    assert_eq!(sandbox.set(&repo, &gone).unwrap().len(), 5);
}

#[tokio::test]
async fn owners_share_objects_and_not_refs() {
    let work = Work::example();
    let (sandbox, alices) = Sandbox::published(&work).await;
    let bobs = repo(BOB, "project");
    sandbox.create(&bobs).unwrap();
    assert!(sandbox.refs(&bobs).unwrap().is_empty());
    assert_eq!(sandbox.kind(&bobs, work.oid("v1")), Some(ObjectKind::Tag));
    sandbox
        .set(&bobs, &[set("refs/heads/main", work.oid("dev"))])
        .unwrap();
    assert_eq!(
        git(&sandbox.path(&bobs), &["rev-parse", "HEAD"]),
        work.oid("dev").to_hex()
    );
    assert_eq!(sandbox.refs(&alices).unwrap().len(), 5);
    assert_eq!(sandbox.packs(&alices.identifier).len(), 1);
    assert_fsck_is_clean(&sandbox.path(&bobs));
}

#[tokio::test]
async fn any_sequence_of_updates_ends_where_a_plain_map_does() {
    let work = Work::example();
    let (sandbox, repo) = Sandbox::published(&work).await;
    let mut model: BTreeMap<RefName, Oid> = work
        .refs()
        .into_iter()
        .map(|(text, oid)| (name(&text), oid))
        .collect();
    let tips = [work.oid("main"), work.oid("dev")];
    let mut state = 7_u32;
    let mut random = |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) % below
    };
    for _ in 0..60 {
        let mut edits = BTreeMap::new();
        for _ in 0..random(6) {
            let name = name(&format!(
                "refs/heads/{}",
                ["a", "a/b", "a-b", "c", "c/d/e"][random(5) as usize]
            ));
            let new = (random(3) > 0).then(|| tips[random(2) as usize]);
            edits.insert(name, new);
        }
        let list: Vec<RefEdit> = edits
            .iter()
            .map(|(name, new)| RefEdit {
                name: name.clone(),
                old: model.get(name).copied(),
                new: *new,
            })
            .collect();
        match sandbox.repositories.update_refs(&repo, &list, None) {
            Ok(_) => {
                for (name, new) in edits {
                    match new {
                        Some(oid) => drop(model.insert(name, oid)),
                        None => drop(model.remove(&name)),
                    }
                }
            }
            Err(RefUpdateError::Conflict(parent, child)) => {
                assert!(child.as_str().starts_with(&format!("{parent}/")));
            }
            Err(other) => panic!("{other}"),
        }
        let refs = sandbox.refs(&repo).unwrap();
        let ours = refs.iter().map(|r| (r.name.clone(), r.oid));
        assert_eq!(ours.collect::<BTreeMap<_, _>>(), model);
    }
    let refs = sandbox.refs(&repo).unwrap();
    assert_eq!(refs_by_us(&refs), refs_by_git(&sandbox.path(&repo)));
}
