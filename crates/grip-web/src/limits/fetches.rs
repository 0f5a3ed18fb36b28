//! Fetches under way, and the end of those that nobody reads or asks for to the end.
//!
//! A client that asks for a pack and does not read it, or does not send the rest of a long request, keeps
//! a permit, a git process and its memory for as long as a stall may last; one that reads a little at a time,
//! for hours. From many addresses that is every permit of a repository. As long as nobody waits it may; where
//! somebody does, for a permit or for memory, the fetch that has stood still longest is cut, else the slowest
//! of those that are slow by the rule of uploads ([`UploadProgress`]).

use std::{
    io,
    pin::Pin,
    sync::{Arc, OnceLock, Weak},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::Stream;
use grip_tasks::{MakesRoom, UploadProgress};
use grip_types::{ClientNetwork, RepoAddr};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::Instant,
};

use super::RequestPermit;

/// How long a fetch may stand still while others wait for its permit: more than a link takes to
/// recover, and less than people wait.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// The same for the memory of its git. A slow reader empties a buffer of the kernel for some seconds before
/// we hear of it, and memory is short more often than permits.
const MAX_PAUSE_WITH_MEMORY: Duration = Duration::from_secs(5);
/// Longest piece of a pack: a client that reads slowly, and reads, takes one in less than a second.
const PIECE: usize = 16 << 10;

/// The fetches that send packs.
#[derive(Default)]
pub(super) struct Fetches(Mutex<Vec<Weak<dyn Cut>>>);

/// A fetch that can be cut from outside: its client may never ask for the next bytes, or hardly ever.
trait Cut: Send + Sync {
    /// Says whether it is of another network, and of this repository.
    fn concerns(&self, unlike: Option<ClientNetwork>, of: Option<&RepoAddr>) -> bool;
    /// How its client holds it up, who may stand still for `pause`. Never waits: who asks may be a fetch at
    /// work itself.
    fn delay(&self, pause: Duration) -> Option<Delay>;
    /// Ends its git and frees its permit, unless its client has gone on since.
    fn cut(&self, delay: Delay) -> bool;
}

/// How a client holds its fetch up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Delay {
    /// It has read or sent nothing since.
    Still(Instant),
    /// It reads or sends so little in a second.
    Slow(u64),
}

struct Fetch<S> {
    network: Option<ClientNetwork>,
    repository: RepoAddr,
    request: Arc<RequestRest>,
    state: Mutex<State<S>>,
}

/// What a fetch waits for its client: the rest of its request, and all it reads.
#[derive(Default)]
pub(crate) struct RequestRest {
    /// Since when the rest is waited for.
    since: Mutex<Option<Instant>>,
    /// Of the request as it was sent, and of the pack as it is read.
    progress: Arc<UploadProgress>,
    fetch: OnceLock<Weak<dyn Cut>>,
}

impl RequestRest {
    fn delayed(&self) -> Option<(Arc<dyn Cut>, Delay)> {
        let fetch = self.fetch.get()?.upgrade()?;
        let delay = fetch.delay(MAX_PAUSE_WITH_MEMORY)?;
        Some((fetch, delay))
    }
}

impl MakesRoom for RequestRest {
    fn slow_bytes_per_second(&self) -> Option<u64> {
        let (_, delay) = self.delayed()?;
        Some(match delay {
            Delay::Still(_) => 0,
            Delay::Slow(bytes_per_second) => bytes_per_second,
        })
    }

    fn make_room(&self) -> bool {
        self.delayed()
            .is_some_and(|(fetch, delay)| fetch.cut(delay))
    }
}

impl RequestRest {
    /// For who counts what its client sends.
    pub(crate) fn progress(&self) -> Arc<UploadProgress> {
        Arc::clone(&self.progress)
    }

    /// A reader of the rest that is watched.
    pub(crate) fn watch<R>(self: &Arc<Self>, reader: R) -> WatchedRead<R> {
        WatchedRead {
            reader,
            rest: Arc::clone(self),
        }
    }
}

/// Reads the rest of a request, and notes while nothing comes.
pub(crate) struct WatchedRead<R> {
    reader: R,
    rest: Arc<RequestRest>,
}

impl<R: AsyncRead + Unpin> AsyncRead for WatchedRead<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.reader).poll_read(cx, buf);
        let mut since = self.rest.since.lock();
        if read.is_pending() {
            since.get_or_insert_with(Instant::now);
        } else {
            *since = None;
        }
        drop(since);
        read
    }
}

struct State<S> {
    /// None once it is cut or at its end.
    sending: Option<(S, RequestPermit)>,
    /// What is left of the last bytes of git.
    rest: Bytes,
    /// Since when its client has bytes and has not asked for more; none while it waits for git.
    still_since: Option<Instant>,
    /// How many these are.
    handed_bytes: usize,
    is_cut: bool,
}

impl Fetches {
    pub(super) fn begin<S>(
        &self,
        chunks: S,
        permit: RequestPermit,
        network: Option<ClientNetwork>,
        repository: RepoAddr,
        request: Arc<RequestRest>,
    ) -> FetchStream<S>
    where
        S: Send + 'static,
    {
        let fetch = Arc::new(Fetch {
            network,
            repository,
            request,
            state: Mutex::new(State {
                sending: Some((chunks, permit)),
                rest: Bytes::new(),
                still_since: Some(Instant::now()),
                handed_bytes: 0,
                is_cut: false,
            }),
        });
        let mut all = self.0.lock();
        all.retain(|fetch| fetch.strong_count() > 0);
        let cut: Weak<dyn Cut> = Arc::downgrade(&fetch) as Weak<dyn Cut>;
        // Each request is of one fetch.
        let _ = fetch.request.fetch.set(Weak::clone(&cut));
        all.push(cut);
        FetchStream(fetch)
    }

    /// Cuts the fetch that has stood still longest, if one has for too long, or else the slowest that is
    /// slow: one of `repository`, and of another network than who waits. Says whether there was one.
    pub(super) fn cut_one(
        &self,
        waits: Option<ClientNetwork>,
        repository: Option<&RepoAddr>,
    ) -> bool {
        let fetches: Vec<Arc<dyn Cut>> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        let delayed = fetches
            .iter()
            .filter(|fetch| fetch.concerns(waits, repository))
            .filter_map(|fetch| Some((fetch.delay(MAX_PAUSE)?, fetch)));
        delayed
            .min_by_key(|(delay, _)| *delay)
            .is_some_and(|(delay, fetch)| fetch.cut(delay))
    }
}

impl<S: Send> Cut for Fetch<S> {
    fn concerns(&self, unlike: Option<ClientNetwork>, of: Option<&RepoAddr>) -> bool {
        // Who has no network of its own is behind a proxy, and may be anybody.
        let is_other = unlike.is_none() || self.network != unlike;
        is_other && of.is_none_or(|of| *of == self.repository)
    }

    fn delay(&self, pause: Duration) -> Option<Delay> {
        let state = self.state.try_lock()?;
        state.sending.as_ref()?;
        // None while it waits for git.
        let since = self.client_since(&state)?;
        if since.elapsed() >= pause {
            return Some(Delay::Still(since));
        }
        let rate = self.request.progress.slow_bytes_per_second();
        rate.map(Delay::Slow)
    }

    fn cut(&self, delay: Delay) -> bool {
        // Who has it at this moment is at work; to wait for that could be to wait for each other.
        let Some(mut state) = self.state.try_lock() else {
            return false;
        };
        let is_delayed = match (delay, self.client_since(&state)) {
            (Delay::Still(since), now) => now == Some(since),
            (Delay::Slow(_), now) => now.is_some(),
        };
        if !is_delayed || state.sending.is_none() {
            return false;
        }
        state.is_cut = true;
        let sending = state.sending.take();
        drop(state);
        drop(sending);
        tracing::debug!(repository = %self.repository, "cut a fetch whose client is too slow: others wait");
        true
    }
}

impl<S> Fetch<S> {
    /// Since when its client is waited for.
    fn client_since(&self, state: &State<S>) -> Option<Instant> {
        state.still_since.or_else(|| *self.request.since.lock())
    }
}

/// The pack of a fetch, as long as it is not cut.
pub(crate) struct FetchStream<S>(Arc<Fetch<S>>);

impl<S> Stream for FetchStream<S>
where
    S: Stream<Item = io::Result<Bytes>> + Unpin,
{
    type Item = io::Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.0.state.lock();
        if state.is_cut {
            let text = "its client was too slow while others waited";
            return Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, text))));
        }
        let progress = &self.0.request.progress;
        if state.still_since.take().is_some() {
            progress.received(std::mem::take(&mut state.handed_bytes));
        }
        let State { sending, rest, .. } = &mut *state;
        let next = match sending {
            Some((chunks, _)) if rest.is_empty() => Pin::new(chunks).poll_next(cx),
            Some(_) => Poll::Ready(Some(Ok(std::mem::take(rest)))),
            None => Poll::Ready(None),
        };
        let next = next.map_ok(|mut bytes| {
            *rest = bytes.split_off(bytes.len().min(PIECE));
            bytes
        });
        if let Poll::Ready(Some(Ok(bytes))) = &next {
            state.handed_bytes = bytes.len();
            state.still_since = Some(Instant::now());
            progress.waiting();
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::{StreamExt as _, stream};
    use grip_types::Identifier;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::{
        super::{Class, Limits},
        *,
    };
    use crate::{client::Client, settings::WebLimits};

    fn client(last: u8) -> Client {
        Client {
            ip: [203, 0, 113, last].into(),
            exempt: false,
        }
    }

    /// One permit for all, and so one for the repository.
    fn one_fetch() -> WebLimits {
        WebLimits {
            fetch: 1,
            ..Default::default()
        }
    }

    fn repository() -> RepoAddr {
        let owner = nostr::prelude::PublicKey::from_byte_array([7; 32]);
        RepoAddr::new(owner, Identifier::parse("victim").unwrap())
    }

    /// A fetch from an address that has the only permit.
    fn begin<S: Send + 'static>(limits: &Limits, last: u8, chunks: S) -> FetchStream<S> {
        let (bounds, repo) = (one_fetch(), repository());
        let permit = limits.request(Class::Fetch, client(last), Some(&repo), &bounds);
        let network = bounds.networks.network(client(last).ip);
        limits.fetch(chunks, permit.unwrap(), Some(network), repo, Arc::default())
    }

    async fn ask(limits: &Limits, last: u8) -> Option<RequestPermit> {
        let (bounds, repo) = (one_fetch(), repository());
        let soon = limits.request_soon(Class::Fetch, client(last), Some(&repo), &bounds);
        soon.await
    }

    fn endless() -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static {
        stream::repeat_with(|| Ok(Bytes::from_static(b"pack")))
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_that_nobody_reads_makes_room_for_one_who_waits() {
        let limits = Limits::new(&one_fetch());
        let mut unread = begin(&limits, 1, endless());
        assert!(unread.next().await.unwrap().is_ok());
        let began = Instant::now();
        let permit = ask(&limits, 2).await;
        assert!(permit.is_some());
        assert!(began.elapsed() < MAX_PAUSE + Duration::from_millis(200));
        let cut = unread.next().await.unwrap().unwrap_err();
        assert_eq!(cut.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_whose_request_does_not_come_makes_room_for_one_who_waits() {
        let (limits, bounds, repo) = (Limits::new(&one_fetch()), one_fetch(), repository());
        let permit = limits.request(Class::Fetch, client(1), Some(&repo), &bounds);
        let network = Some(bounds.networks.network(client(1).ip));
        let (request, (rest, mut sender)) = (Arc::default(), tokio::io::duplex(64));
        let mut rest = RequestRest::watch(&request, rest);
        let whole = async move {
            let mut all = Vec::new();
            rest.read_to_end(&mut all).await?;
            Ok::<_, io::Error>(Bytes::from(all))
        };
        let chunks = Box::pin(stream::once(whole));
        let mut slow = limits.fetch(chunks, permit.unwrap(), network, repo, request);
        assert!(futures_util::poll!(slow.next()).is_pending());
        tokio::time::advance(MAX_PAUSE / 2).await;
        sender.write_all(b"want").await.unwrap();
        assert!(futures_util::poll!(slow.next()).is_pending(), "it goes on");
        let began = Instant::now();
        assert!(ask(&limits, 2).await.is_some());
        assert!(began.elapsed() >= MAX_PAUSE - Duration::from_millis(200));
        assert!(slow.next().await.unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_that_nobody_reads_makes_room_for_memory() {
        let (limits, bounds, repo) = (Limits::new(&one_fetch()), one_fetch(), repository());
        let permit = limits.request(Class::Fetch, client(1), Some(&repo), &bounds);
        let request = Arc::<RequestRest>::default();
        assert_eq!(request.slow_bytes_per_second(), None, "it has not begun");
        let rest = Arc::clone(&request);
        let mut unread = limits.fetch(endless(), permit.unwrap(), None, repo, rest);
        assert!(unread.next().await.unwrap().is_ok());
        assert!(!request.make_room(), "it was read a moment ago");
        tokio::time::advance(MAX_PAUSE_WITH_MEMORY).await;
        assert_eq!(request.slow_bytes_per_second(), Some(0));
        let at_work = unread.0.state.lock();
        assert!(!request.make_room(), "its client may be reading now");
        drop(at_work);
        assert!(request.make_room());
        assert!(unread.next().await.unwrap().is_err());
        assert!(!request.make_room());
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_that_waits_for_git_or_is_read_is_not_cut() {
        let limits = Limits::new(&one_fetch());
        let mut thinking = begin(&limits, 1, stream::pending::<io::Result<Bytes>>());
        assert!(futures_util::poll!(thinking.next()).is_pending());
        assert!(ask(&limits, 2).await.is_none());
        drop(thinking);

        let mut read = begin(&limits, 1, endless());
        let waits = ask(&limits, 2);
        tokio::pin!(waits);
        for _ in 0..4 {
            assert!(read.next().await.unwrap().is_ok());
            assert!(futures_util::poll!(waits.as_mut()).is_pending());
            tokio::time::advance(MAX_PAUSE / 2).await;
        }
        assert!(read.next().await.unwrap().is_ok());
        drop(read);
        assert!(waits.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_has_a_share_cuts_nobody_and_a_pack_leaves_in_small_pieces() {
        let bounds = WebLimits {
            fetch: 4,
            ..Default::default()
        };
        let (limits, repo) = (Limits::new(&bounds), repository());
        let take = |last| limits.request(Class::Fetch, client(last), Some(&repo), &bounds);
        let network = Some(bounds.networks.network(client(1).ip));
        let chunks = stream::repeat_with(|| Ok(Bytes::from(vec![0; 3 * PIECE])));
        let mut unread = limits.fetch(
            chunks,
            take(1).unwrap(),
            network,
            repo.clone(),
            Arc::default(),
        );
        assert_eq!(unread.next().await.unwrap().unwrap().len(), PIECE);
        let other = take(2);
        assert!(other.is_some() && take(2).is_none());
        let more = limits.request_soon(Class::Fetch, client(2), Some(&repo), &bounds);
        assert!(more.await.is_none());
        assert_eq!(unread.next().await.unwrap().unwrap().len(), PIECE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_does_not_cut_its_own() {
        let limits = Limits::new(&one_fetch());
        let mut unread = begin(&limits, 1, endless());
        assert!(unread.next().await.unwrap().is_ok());
        assert!(ask(&limits, 1).await.is_none());
        assert!(unread.next().await.unwrap().is_ok());
    }

    /// Reads a piece of a pack every 900 ms, as if its buffers were small; about 18 KiB a second.
    async fn read_slowly<S>(mut fetch: FetchStream<S>) -> io::Error
    where
        S: Stream<Item = io::Result<Bytes>> + Unpin,
    {
        loop {
            if let Err(error) = fetch.next().await.unwrap() {
                return error;
            }
            tokio::time::sleep(MAX_PAUSE * 9 / 10).await;
        }
    }

    fn pack() -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin + 'static {
        stream::repeat_with(|| Ok(Bytes::from(vec![0; PIECE])))
    }

    #[tokio::test(start_paused = true)]
    async fn slow_readers_make_room_for_one_who_waits() {
        let (limits, is_cut) = (Limits::new(&one_fetch()), Cell::new(false));
        let slow = async {
            let error = read_slowly(begin(&limits, 1, pack())).await;
            is_cut.set(true);
            error
        };
        let others = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(ask(&limits, 1).await.is_none(), "not its own network");
            tokio::time::sleep(UploadProgress::GRACE).await;
            assert!(!is_cut.get(), "nobody waits");
            let began = Instant::now();
            assert!(ask(&limits, 2).await.is_some());
            assert!(began.elapsed() < MAX_PAUSE);
        };
        let (error, ()) = tokio::join!(slow, others);
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_makes_room_for_memory_and_a_quick_one_does_not() {
        let (limits, bounds, repo) = (Limits::new(&one_fetch()), one_fetch(), repository());
        let permit = limits.request(Class::Fetch, client(1), Some(&repo), &bounds);
        let request = Arc::<RequestRest>::default();
        let rest = Arc::clone(&request);
        let mut fetch = limits.fetch(pack(), permit.unwrap(), None, repo, rest);
        for _ in 0..100 {
            assert!(fetch.next().await.unwrap().is_ok());
            tokio::time::advance(Duration::from_millis(100)).await;
            assert_eq!(request.slow_bytes_per_second(), None);
        }
        for _ in 0..10 {
            assert!(fetch.next().await.unwrap().is_ok());
            tokio::time::advance(Duration::from_millis(900)).await;
        }
        let rate = request.slow_bytes_per_second();
        assert!(rate.is_some_and(|rate| rate > 0), "{rate:?}");
        assert!(request.make_room());
        assert!(fetch.next().await.unwrap().is_err());
    }
}
