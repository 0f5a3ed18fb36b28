use grip_nostr::PublicKey;
use grip_types::{Identifier, NetworkPrefixes};

use super::*;

fn repository() -> RepoAddr {
    let owner = PublicKey::from_byte_array([7; 32]);
    RepoAddr::new(owner, Identifier::parse("repo").unwrap())
}

fn network(last: u8) -> Option<ClientNetwork> {
    Some(NetworkPrefixes::default().network([192, 0, 2, last].into()))
}

async fn taken(permits: &Arc<PushPermits>, networks: &[u8]) -> Vec<PushPermit> {
    let mut taken = Vec::new();
    for last in networks {
        let network = network(*last).filter(|_| *last != 0);
        let permit = permits
            .acquire(&repository(), network, true, Arc::default())
            .await
            .unwrap();
        permit.transfer.progress.waiting();
        taken.push(permit);
    }
    taken
}

fn is_displaced(permit: &PushPermit) -> bool {
    permit.transfer.progress.is_displaced()
}

#[tokio::test(start_paused = true)]
async fn one_network_gives_way_to_another_at_once() {
    let permits = Arc::new(PushPermits::default());
    let flood = taken(&permits, &[1; 8]).await;
    flood[3].transfer.progress.received(10 << 20);
    let began = Instant::now();
    let owner = permits
        .acquire(&repository(), network(2), true, Arc::default())
        .await
        .unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(flood.iter().filter(|it| is_displaced(it)).count(), 1);
    assert!(!is_displaced(&flood[3]) && !is_displaced(&owner));
    assert_eq!(permits.total(), 8);
    drop((flood, owner));
    assert!(permits.repositories.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn those_who_trickle_give_way_after_a_moment_wherever_they_come_from() {
    for from in [[1, 2, 3, 4, 5, 6, 7, 8], [0; 8]] {
        let permits = Arc::new(PushPermits::default());
        let flood = taken(&permits, &from).await;
        let began = Instant::now();
        let owner = permits
            .acquire(&repository(), None, true, Arc::default())
            .await;
        assert!(owner.is_some());
        assert!(began.elapsed() <= UploadProgress::GRACE + LOOK_EVERY);
        assert_eq!(flood.iter().filter(|it| is_displaced(it)).count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn quick_uploads_are_left_alone_and_what_is_whole_too() {
    let permits = Arc::new(PushPermits::default());
    let quick = taken(&permits, &[1, 2, 3, 4, 5, 6, 7]).await;
    let whole = taken(&permits, &[8]).await;
    assert!(whole[0].transfer.progress.complete());
    for permit in &quick {
        permit.transfer.progress.received(100 << 20);
    }
    let began = Instant::now();
    assert!(
        permits
            .acquire(&repository(), network(9), true, Arc::default())
            .await
            .is_none()
    );
    assert_eq!(began.elapsed(), MAX_WAIT);
    assert!(!quick.iter().chain(&whole).any(is_displaced));
}

#[tokio::test(start_paused = true)]
async fn a_push_that_waits_gets_the_permit_of_one_that_ends() {
    let permits = Arc::new(PushPermits::default());
    let mut quick = taken(&permits, &[1, 2, 3, 4, 5, 6, 7, 8]).await;
    for permit in &quick {
        permit.transfer.progress.received(100 << 20);
    }
    let repository = repository();
    let waiting = permits.acquire(&repository, network(9), true, Arc::default());
    let ending = async { drop(quick.pop()) };
    let (permit, ()) = tokio::join!(waiting, ending);
    assert!(permit.is_some());
}

#[tokio::test(start_paused = true)]
async fn the_time_before_we_read_makes_no_upload_slow() {
    let permits = Arc::new(PushPermits::default());
    let mut unread = Vec::new();
    for last in 1..=8 {
        unread.push(
            permits
                .acquire(&repository(), network(last), true, Arc::default())
                .await
                .unwrap(),
        );
    }
    assert!(
        permits
            .acquire(&repository(), network(9), true, Arc::default())
            .await
            .is_none()
    );
    assert!(!unread.iter().any(is_displaced));
}

#[tokio::test(start_paused = true)]
async fn what_no_state_allows_leaves_permits_to_the_rest() {
    let permits = Arc::new(PushPermits::default());
    let mut staged = Vec::new();
    for last in 1..=4 {
        let permit = permits
            .acquire(&repository(), network(last), false, Arc::default())
            .await;
        staged.push(permit.unwrap());
    }
    let repository = repository();
    let fifth = permits.acquire(&repository, network(5), false, Arc::default());
    let owner = permits.acquire(&repository, network(6), true, Arc::default());
    tokio::pin!(fifth);
    assert!(futures_util::poll!(&mut fifth).is_pending());
    assert!(owner.await.is_some());
    // It makes room as any other that trickles, and none but what is staged does for it.
    staged[0].transfer.progress.waiting();
    assert!(fifth.await.is_some());
    assert!(is_displaced(&staged[0]) && !staged[1..].iter().any(is_displaced));
}

#[tokio::test(start_paused = true)]
async fn maintainers_come_first_then_those_who_name_a_branch_and_each_network_in_its_turn() {
    let permits = Arc::new(PushPermits::default());
    let mut quick = taken(&permits, &[1, 2, 3, 4, 5, 6, 7, 8]).await;
    for permit in &quick {
        permit.transfer.progress.received(100 << 20);
    }
    permits.moved_state_refs(&repository(), network(9));
    let order = Mutex::new(Vec::new());
    let push = |name: &'static str, last, moves_state_refs| {
        let (permits, order) = (&permits, &order);
        async move {
            let repository = repository();
            let permit =
                permits.acquire(&repository, network(last), moves_state_refs, Arc::default());
            let permit = permit.await.unwrap();
            order.lock().push(name);
            permit
        }
    };
    let ending = async {
        for _ in 0..5 {
            drop(quick.pop());
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let pushes = futures_util::future::join5(
        push("staged", 10, false),
        push("first", 11, true),
        push("its second", 11, true),
        push("another", 12, true),
        push("maintainer", 9, true),
    );
    let _ = tokio::join!(pushes, ending);
    let expected = ["maintainer", "first", "another", "its second", "staged"];
    assert_eq!(*order.lock(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_line_of_strangers_is_bounded_and_none_of_the_maintainers() {
    let permits = Arc::new(PushPermits::default());
    let quick = taken(&permits, &[1, 2, 3, 4, 5, 6, 7, 8]).await;
    for permit in &quick {
        permit.transfer.progress.received(100 << 20);
    }
    let repository = repository();
    let mut waiting = Vec::new();
    for last in 20..=28 {
        let mut push = Box::pin(permits.acquire(&repository, network(last), true, Arc::default()));
        let answer = futures_util::poll!(&mut push);
        assert_eq!(
            answer.is_pending(),
            last < 28,
            "the ninth is refused at once"
        );
        waiting.push(push);
    }
    permits.moved_state_refs(&repository, network(9));
    let began = Instant::now();
    let owner = permits
        .acquire(&repository, network(9), true, Arc::default())
        .await;
    assert!(owner.is_some() && began.elapsed() == Duration::ZERO);
    assert_eq!(quick.iter().filter(|it| is_displaced(it)).count(), 1);
    drop((quick, owner, waiting));
    assert!(permits.repositories.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_full_line_of_few_networks_has_a_place_for_another() {
    let permits = Arc::new(PushPermits::default());
    let quick = taken(&permits, &[1, 1, 1, 1, 2, 2, 2, 2]).await;
    for permit in &quick {
        permit.transfer.progress.received(100 << 20);
        assert!(permit.transfer.progress.complete());
    }
    let repository = repository();
    let mut waiting = Vec::new();
    for last in [1, 1, 1, 1, 2, 2, 2, 2] {
        let mut push = Box::pin(permits.acquire(&repository, network(last), true, Arc::default()));
        assert!(futures_util::poll!(&mut push).is_pending());
        waiting.push(push);
    }
    let owner = permits.acquire(&repository, network(3), true, Arc::default());
    tokio::pin!(owner);
    assert!(futures_util::poll!(&mut owner).is_pending());
    let last = waiting.pop().unwrap();
    assert!(last.await.is_none(), "it made room in the line");
    drop((quick, waiting));
    assert!(owner.await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_maintainer_takes_the_permit_of_one_who_moves_nothing_however_quick() {
    let permits = Arc::new(PushPermits::default());
    let quick = taken(&permits, &[1, 2, 3, 4, 5, 6, 7, 8]).await;
    for permit in &quick {
        permit.transfer.progress.received(100 << 20);
    }
    quick[5].transfer.moves_nothing();
    let began = Instant::now();
    let owner = permits
        .acquire(&repository(), network(9), true, Arc::default())
        .await;
    let owner = owner.unwrap();
    assert!(owner.transfer.progress.complete() && is_displaced(&quick[5]));
    permits.moved_state_refs(&repository(), network(10));
    let maintainer = permits
        .acquire(&repository(), network(10), true, Arc::default())
        .await;
    assert!(maintainer.is_some());
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(quick.iter().filter(|it| is_displaced(it)).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_slow_upload_of_a_maintainer_makes_no_room_for_strangers() {
    let permits = Arc::new(PushPermits::default());
    permits.moved_state_refs(&repository(), network(9));
    let slow = taken(&permits, &[9]).await;
    let quick = taken(&permits, &[1, 2, 3, 4, 5, 6, 7]).await;
    for permit in &quick {
        permit.transfer.progress.received(100 << 20);
    }
    let stranger = permits
        .acquire(&repository(), network(8), true, Arc::default())
        .await;
    assert!(stranger.is_none() && !is_displaced(&slow[0]));
}

#[tokio::test(start_paused = true)]
async fn uploads_that_rest_after_a_quick_start_give_way_like_those_that_trickle() {
    let permits = Arc::new(PushPermits::default());
    let flood = taken(&permits, &[1, 2, 3, 4, 5, 6, 7, 8]).await;
    for permit in &flood {
        permit.transfer.progress.received(100 << 20);
        permit.transfer.progress.waiting();
    }
    let began = Instant::now();
    let repository = repository();
    let owner = permits.acquire(&repository, network(9), true, Arc::default());
    assert!(owner.await.is_some());
    assert!(began.elapsed() <= UploadProgress::GRACE + LOOK_EVERY);
    assert_eq!(flood.iter().filter(|it| is_displaced(it)).count(), 1);
}
