//! Pull requests: the event first, git first, and the two at odds.

use grip_relay::{Share, WritePolicy as _};
use grip_testkit::{Author, wire};
use grip_types::Origin;
use nostr::prelude::Event;

use crate::node::{
    HELD, Scene, ZERO, add_repository, addr, announce, announce_at, join, later, with_repository,
};

fn nostr_ref(event: &Event) -> String {
    format!("refs/nostr/{}", event.id.to_hex())
}

#[tokio::test]
async fn g01_43_git_first_then_the_event_is_served_at_once() {
    let (owner, author) = (Author::new(), Author::new());
    let (node, tree, _tip) = with_repository(&owner, "x").await;
    let repo = addr(&owner, "x");
    let tip = tree.commit("a", "proposal").unwrap();
    let event = author.pull_request(&owner, "x", &tip, "https://elsewhere.example/x.git");
    let name = nostr_ref(&event);
    let told = node.push(&repo, &tree, &[(ZERO, &tip, &name)]).await;
    told.taken("publish the pull request event before then");
    assert_eq!(
        node.refs(&repo)[&name],
        tip,
        "shown before its event is known"
    );
    assert_eq!(node.waiting(), 1);
    node.accepts(&event, "").await;
    assert!(node.serves(&event));
    assert_eq!(node.refs(&repo)[&name], tip);
    assert_eq!(node.waiting(), 0);
}

/// What a signed event names stays: without a bound a stranger could fill the disk.
#[tokio::test]
async fn bytes_of_pull_requests_are_bounded_by_author_network_and_repository() {
    let scene = Scene::new().await;
    let (node, main) = (&scene.node, &scene.tip);
    let request = |author: &Author, tip: &str| {
        author.pull_request(&scene.owner, "x", tip, "https://elsewhere.example/x.git")
    };
    // A commit of 1 MiB beside the served one, and an event that names it.
    let propose = |author: &Author, seed: u64| {
        scene.tree.git(["checkout", "-q", main]).unwrap();
        let tip = scene.tree.commit_noise_of(seed, 1, 1).unwrap();
        (request(author, &tip), tip)
    };
    let push = async |event: &Event, tip: &str, from: &str| {
        let command = [(ZERO, tip, nostr_ref(event))];
        let command = command
            .each_ref()
            .map(|(old, new, name)| (*old, *new, name.as_str()));
        let mut body = wire::commands(&command, wire::CAPABILITIES);
        body.extend(wire::pack(&scene.tree, tip, Some(main)).await.unwrap());
        node.push_bytes_from(Some(from), &scene.repo, body).await
    };
    let mib = 1 << 20;
    let bounds = grip_grasp::PullRequestBytes {
        per_author: 3 * mib / 2,
        per_network: 5 * mib / 2,
        per_repository: 64 * mib,
    };
    node.enforce(|policy| policy.pull_request_bytes = bounds)
        .await;
    let authors: Vec<Author> = (0..3).map(|_| Author::new()).collect();
    let mut proposed = Vec::new();
    for (author, seed) in [(0, 1), (0, 2), (1, 3), (2, 4)] {
        let (event, tip) = propose(&authors[author], seed);
        node.accepts(&event, HELD).await;
        proposed.push((event, tip));
    }
    let pushed = async |n: usize, from: &str| push(&proposed[n].0, &proposed[n].1, from).await;
    pushed(0, "203.0.113.1").await.taken("");
    let told = pushed(1, "203.0.113.2").await;
    told.refused("over quota: pull requests of this author");
    assert!(!node.has_object("x", &proposed[1].1));
    pushed(2, "203.0.113.1").await.taken("");
    let told = pushed(3, "203.0.113.1").await;
    told.refused("over quota: pull requests from your network");
    pushed(3, "203.0.113.3").await.taken("");

    // Nobody who maintains the repository asks for room.
    let (own, tip) = propose(&scene.owner, 5);
    node.accepts(&own, HELD).await;
    push(&own, &tip, "203.0.113.1").await.taken("");
    // Of a repository one network has a quarter of what is free.
    let small = grip_grasp::PullRequestBytes {
        per_repository: 4 * mib,
        ..bounds
    };
    node.enforce(|policy| policy.pull_request_bytes = small)
        .await;
    let told = pushed(1, "203.0.113.9").await;
    told.refused("over quota: pull requests");
    node.agrees().await;
}

/// The budget of a network is for what is kept. A node that fails costs nobody anything, and what is broken
/// off costs its network a part: else anybody could have packs received without end.
#[tokio::test]
async fn bytes_of_a_failed_push_are_given_back_and_a_broken_one_costs_a_quarter() {
    let scene = Scene::new().await;
    let (node, main) = (&scene.node, &scene.tip);
    let mib = 1 << 20;
    let bounds = grip_grasp::PullRequestBytes {
        per_author: 64 * mib,
        per_network: 2 * mib,
        per_repository: 64 * mib,
    };
    node.enforce(|policy| policy.pull_request_bytes = bounds)
        .await;
    let body = async |seed: u64, id: char| {
        scene.tree.git(["checkout", "-q", main]).unwrap();
        let tip = scene.tree.commit_noise_of(seed, 1, 1).unwrap();
        let name = format!("refs/nostr/{}", id.to_string().repeat(64));
        let mut body = wire::commands(&[(ZERO, &tip, &name)], wire::CAPABILITIES);
        body.extend(wire::pack(&scene.tree, &tip, Some(main)).await.unwrap());
        body
    };
    let push =
        async |from: &str, body: Vec<u8>| node.push_bytes_from(Some(from), &scene.repo, body).await;
    // The record of a staged upload cannot be written.
    let repository = node.path_of(&scene.repo);
    let records = repository.ancestors().nth(2).unwrap().join(".staged");
    drop(std::fs::remove_dir_all(&records));
    std::fs::write(&records, "").unwrap();
    let waiting = node.waiting();
    for seed in 1..=3 {
        push("203.0.113.1", body(seed, 'a').await).await.refused("");
    }
    assert_eq!(node.waiting(), waiting, "nothing waits for an event");
    std::fs::remove_file(&records).unwrap();
    push("203.0.113.1", body(4, 'b').await).await.taken("");

    let whole = body(5, 'c').await;
    for _ in 0..5 {
        let broken = whole[..whole.len() - 100].to_vec();
        push("203.0.113.2", broken).await.refused("");
    }
    let told = push("203.0.113.2", whole.clone()).await;
    told.refused("over quota: pull requests from your network");
    push("203.0.113.3", whole).await.taken("");
    node.agrees().await;
}

/// Events that name a commit that is here need no push: without a bound, a stranger could give a
/// repository any number of refs.
#[tokio::test]
async fn refs_of_pull_requests_are_bounded_and_deletions_make_room() {
    let scene = Scene::new().await;
    let bounds = grip_grasp::PullRequestRefs {
        per_author: 2,
        per_repository: 3,
    };
    scene
        .node
        .enforce(|policy| policy.pull_request_refs = bounds)
        .await;
    let [one, two] = [Author::new(), Author::new()];
    let request = |author: &Author, n: u64| {
        let tags = vec![
            vec!["a".to_owned(), scene.owner.coordinate("x")],
            vec!["c".to_owned(), scene.tip.clone()],
        ];
        author.sign_at(1618, "", tags, later(n))
    };
    let first = request(&one, 1);
    scene.node.accepts(&first, "").await;
    scene.node.accepts(&request(&one, 2), "").await;
    let third = request(&one, 3);
    scene
        .node
        .refuses(&third, "2 pull requests and updates")
        .await;
    scene.node.accepts(&request(&two, 1), "").await;
    let more = request(&two, 2);
    scene.node.refuses(&more, "only its maintainers").await;
    scene.node.accepts(&request(&scene.owner, 1), "").await;
    let deletion = one.delete_events(&[first.id]);
    scene.node.accepts(&deletion, "").await;
    let nostr = |(name, _): &(String, String)| name.starts_with("refs/nostr/");
    let refs = scene.node.refs(&scene.repo).into_iter();
    assert_eq!(refs.filter(nostr).count(), 3);
    scene.node.refuses(&third, "only its maintainers").await;
    scene.node.agrees().await;
}

/// Of what the network may send of events that cost others more than their bytes. One small event made a key
/// an owner of something, and then its pull requests to anybody were free.
#[tokio::test]
async fn pull_requests_take_of_their_networks_share_but_those_of_maintainers() {
    let scene = Scene::new().await;
    let (node, owner) = (&scene.node, &scene.owner);
    let [stranger, holder, second] = [Author::new(), Author::new(), Author::new()];
    node.accepts(&announce(&holder, "held", &[]), HELD).await;
    join(node, owner, &second).await;
    let (_tree, _tip) = add_repository(node, &holder, "y").await;
    let grasp = node.grasp();
    let share = |author: &Author, targets: &[String]| {
        let targets = targets.iter().map(|it| vec!["a".to_owned(), it.clone()]);
        let tip = vec!["c".to_owned(), scene.tip.clone()];
        let event = author.sign(1618, "", targets.chain([tip]).collect());
        assert_eq!(grasp.share_bytes(&event, 700), 2_048);
        grasp.share(&event, Origin::Submitted.into())
    };
    let x = [owner.coordinate("x"), second.coordinate("x")];
    for author in [&stranger, &holder] {
        assert_eq!(share(author, &x), Some(Share::Unrelated));
        assert_eq!(share(author, &[]), Some(Share::Unrelated));
        let held = [author.coordinate("held")];
        assert_eq!(share(author, &held), Some(Share::Unrelated));
    }
    // What is in the maintainer's own repository is charged as an issue there.
    let own = [holder.coordinate("y")];
    assert_eq!(share(&holder, &own), Some(Share::Related));
    let mixed = [own[0].clone(), x[0].clone()];
    assert_eq!(share(&holder, &mixed), Some(Share::Unrelated));
    for maintainer in [owner, &second] {
        assert_eq!(share(maintainer, &x), Some(Share::Related));
    }
}

/// Found by the model: the request is served while its repository waits for a state again, and its ref
/// has to come back with the repository, whichever way its state comes.
#[tokio::test]
async fn g01_49_a_repository_that_is_served_again_has_the_refs_of_served_pull_requests() {
    let (owner, second) = (Author::new(), Author::new());
    let (node, tree, tip) = with_repository(&owner, "x").await;
    join(&node, &owner, &second).await;
    let request = owner.pull_request(&second, "x", &tip, "https://elsewhere.example/x.git");
    node.accepts(&request, "").await;
    let (name, theirs) = (nostr_ref(&request), addr(&second, "x"));
    assert_eq!(node.refs(&theirs)[&name], tip);
    // No state speaks for the second any more.
    node.accepts(&announce_at(&owner, "x", &[], later(2)), "")
        .await;
    assert!(!node.refs(&theirs).contains_key(&name));
    let state = second.state_at("x", &[("refs/heads/main", &tip)], None, later(3));
    node.accepts(&state, "").await;
    assert_eq!(node.refs(&theirs)[&name], tip);
    node.agrees().await;
    drop(tree);
}
