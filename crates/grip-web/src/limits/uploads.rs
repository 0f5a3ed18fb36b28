//! Pushes under way, and those of them that make room.
//!
//! A push has its permit for as long as its upload takes. A dozen addresses with uploads that are just quick
//! enough not to be given up would have all permits of the node for hours.

use std::sync::{Arc, Weak};

use grip_tasks::UploadProgress;
use grip_types::{ClientNetwork, RepoAddr};
use parking_lot::Mutex;

use super::RequestPermit;

/// The pushes that have a permit.
#[derive(Default)]
pub(super) struct Uploads(Mutex<Vec<Weak<WatchedPermit>>>);

/// The permit of a push, which is free once it is dropped or its upload has made room.
pub(crate) struct WatchedPermit {
    permit: Mutex<Option<RequestPermit>>,
    network: Option<ClientNetwork>,
    repository: RepoAddr,
    progress: Arc<UploadProgress>,
}

impl WatchedPermit {
    fn is_held(&self) -> bool {
        self.permit.lock().is_some()
    }
}

impl Uploads {
    pub(super) fn begin(
        &self,
        permit: RequestPermit,
        network: Option<ClientNetwork>,
        repository: RepoAddr,
        progress: Arc<UploadProgress>,
    ) -> Arc<WatchedPermit> {
        let upload = Arc::new(WatchedPermit {
            permit: Mutex::new(Some(permit)),
            network,
            repository,
            progress,
        });
        let mut all = self.0.lock();
        all.retain(|upload| upload.strong_count() > 0);
        all.push(Arc::downgrade(&upload));
        upload
    }

    /// Has one upload make room for somebody of another network who has none: the slowest of the network
    /// that has most, if it has several; else the slowest that is slow. Says whether there was one.
    pub(super) fn displace_one(
        &self,
        waits: Option<ClientNetwork>,
        repository: Option<&RepoAddr>,
    ) -> bool {
        let uploads: Vec<Arc<WatchedPermit>> =
            self.0.lock().iter().filter_map(Weak::upgrade).collect();
        let is_of = |of: &RepoAddr| repository.is_none_or(|repository| repository == of);
        // Who has no network of its own is behind a proxy, and may be anybody.
        let is_other = |network| waits.is_none() || network != waits;
        let uploads: Vec<&Arc<WatchedPermit>> = uploads
            .iter()
            .filter(|it| is_of(&it.repository) && is_other(it.network))
            .filter(|it| it.is_held() && !it.progress.is_whole())
            .collect();
        let has = |network: Option<ClientNetwork>| {
            let same = uploads.iter().filter(|it| it.network == network);
            network.map_or(0, |_| same.count())
        };
        let rate = |it: &&&Arc<WatchedPermit>| it.progress.bytes_per_second();
        let most = uploads.iter().map(|it| has(it.network)).max().unwrap_or(0);
        let of_most = uploads
            .iter()
            .filter(|it| most > 1 && has(it.network) == most)
            .min_by_key(rate);
        let slow = uploads.iter().filter(|it| it.progress.is_slow());
        let Some(upload) = of_most.or_else(|| slow.min_by_key(rate)) else {
            return false;
        };
        let is_displaced = upload.progress.displace();
        if is_displaced {
            tracing::debug!(repository = %upload.repository, "displaced an upload: others wait");
            drop(upload.permit.lock().take());
        }
        is_displaced
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use grip_types::Identifier;
    use tokio::time::{Instant, advance};

    use super::{
        super::{Class, Limits},
        *,
    };
    use crate::{client::Client, settings::WebLimits};

    const PUSHES: usize = 8;

    fn bounds() -> WebLimits {
        WebLimits {
            push: PUSHES,
            ..Default::default()
        }
    }

    fn client(last: u8) -> Client {
        Client {
            ip: [203, 0, 113, last].into(),
            exempt: false,
        }
    }

    fn repository(n: u8) -> RepoAddr {
        let owner = nostr::prelude::PublicKey::from_byte_array([n; 32]);
        RepoAddr::new(owner, Identifier::parse("project").unwrap())
    }

    /// An upload from an address to a repository.
    fn begin(
        limits: &Limits,
        last: u8,
        n: u8,
    ) -> Option<(Arc<WatchedPermit>, Arc<UploadProgress>)> {
        let (bounds, repo) = (bounds(), repository(n));
        let permit = limits.request(Class::Push, client(last), Some(&repo), &bounds)?;
        let (network, progress) = (bounds.networks.network(client(last).ip), Arc::default());
        let upload = limits.upload(permit, Some(network), repo, Arc::clone(&progress));
        Some((upload, progress))
    }

    async fn is_let_in(limits: &Limits, last: u8) -> bool {
        let (bounds, repo) = (bounds(), repository(last));
        let soon = limits.request_soon(Class::Push, client(last), Some(&repo), &bounds);
        soon.await.is_some()
    }

    #[tokio::test(start_paused = true)]
    async fn uploads_that_rest_or_trickle_make_room_for_another_network() {
        let limits = Limits::new(&bounds());
        let uploads: Vec<_> = (1..=8).map(|n| begin(&limits, n, n).unwrap()).collect();
        for (_, progress) in &uploads {
            progress.received(100 << 20);
            progress.waiting();
        }
        assert!(!is_let_in(&limits, 9).await, "all may be quick");
        advance(UploadProgress::GRACE).await;
        let began = Instant::now();
        assert!(is_let_in(&limits, 9).await);
        assert_eq!(began.elapsed(), Duration::ZERO);
        let displaced = uploads.iter().filter(|(_, it)| it.is_displaced());
        assert_eq!(displaced.count(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_with_several_makes_room_however_quick_unless_they_are_whole() {
        for is_whole in [false, true] {
            let limits = Limits::new(&bounds());
            let networks = [1, 1, 2, 3, 4, 5, 6, 7].into_iter().zip(10..);
            let uploads: Vec<_> = networks
                .map(|(last, n)| begin(&limits, last, n).unwrap())
                .collect();
            uploads[1].1.received(10);
            if is_whole {
                assert!(uploads[0].1.complete());
            }
            assert_eq!(is_let_in(&limits, 9).await, !is_whole);
            assert_eq!(uploads[0].1.is_displaced(), !is_whole);
            assert_eq!(uploads[0].0.is_held(), is_whole);
            let displaced = uploads.iter().filter(|(_, it)| it.is_displaced());
            assert_eq!(displaced.count(), usize::from(!is_whole));
        }
    }
}
