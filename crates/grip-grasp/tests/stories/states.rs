//! States: held, satisfied, overtaken.

use std::sync::{Arc, Mutex};

use grip_grasp::RepositoryStatus;
use grip_tasks::fault;
use grip_testkit::{Author, WorkTree};

use crate::node::{HELD, Node, Scene, ZERO, addr, announce};

/// What is in `packed-refs` at one moment after the other.
type Seen = Arc<Mutex<Vec<String>>>;

#[tokio::test]
async fn g01_15_a_push_that_satisfies_the_state_serves_state_and_announcement() {
    let (owner, node) = (Author::new(), Node::start().await);
    let repo = addr(&owner, "tide table");
    let tree = WorkTree::with_commit().unwrap();
    let tip = tree.tip("HEAD").unwrap();
    let announcement = announce(&owner, "tide table", &[]);
    let state = owner.state(
        "tide table",
        &[("refs/heads/main", &tip)],
        Some("refs/heads/main"),
    );

    assert_eq!(node.grasp().repository(&repo), None);
    node.accepts(&announcement, HELD).await;
    assert_eq!(node.grasp().repository(&repo), Some(RepositoryStatus::Held));
    assert!(
        node.refs(&repo).is_empty(),
        "an empty repository is there at once"
    );
    node.accepts(&state, HELD).await;
    assert!(!node.serves(&announcement) && !node.serves(&state));

    let told = node
        .push(&repo, &tree, &[(ZERO, &tip, "refs/heads/main")])
        .await;
    told.taken("");
    assert!(
        told.text.contains("is served") && told.text.contains("tide%20table.git"),
        "{told:?}"
    );
    assert!(node.serves(&announcement) && node.serves(&state));
    assert_eq!(
        node.grasp().repository(&repo),
        Some(RepositoryStatus::Served)
    );
    let refs = node.refs(&repo);
    assert_eq!(refs["refs/heads/main"], tip);
    assert_eq!(refs["HEAD"], "refs/heads/main");
    assert_eq!(node.waiting(), 0);
    assert!(node.fsck_is_clean(&repo).await);
}

/// Found by the checker of clusters: refs went back to the earlier state for a moment.
#[tokio::test]
async fn g01_17_a_push_that_satisfies_two_states_leaves_refs_at_the_later() {
    let scene = Scene::new().await;
    let (second, third) = (scene.commit("second"), scene.commit("third"));
    let earlier = scene.hold(&second, 1).await;
    let state = scene.hold(&third, 2).await;
    let (repository, seen) = (scene.node.path_of(&scene.repo), Seen::default());
    let look = {
        let seen = Seen::clone(&seen);
        move || {
            let refs = std::fs::read_to_string(repository.join("packed-refs")).unwrap();
            seen.lock().unwrap().push(refs);
        }
    };
    fault::meet("release.refs_aligned", look);
    scene.push_main(&scene.tip, &third).await.taken("");
    let seen = seen.lock().unwrap();
    assert!(!seen.is_empty());
    assert!(seen.iter().all(|refs| refs.contains(&third)), "{seen:?}");
    assert!(scene.node.serves(&state) && !scene.node.serves(&earlier));
    assert_eq!((scene.main(), scene.node.waiting()), (third, 0));
}
