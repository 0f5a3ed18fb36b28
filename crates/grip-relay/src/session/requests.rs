//! REQ, COUNT and NIP-77 messages of one connection: worked on one after the other, in slices that
//! wait for nobody, while the connection is read on. So what is closed or replaced ends at once.

mod exchange;
mod scan;
mod stored_events;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use grip_nostr::Filter;
use grip_store::{Query, StoreError};
use grip_tasks::CancellationToken;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::sleep_until};

use super::Connection;
use crate::{
    SUBSCRIPTIONS_TOO_LARGE,
    quota::Held,
    reconcile::{Exchanges, Failure, Snapshot},
    relay::Shared,
    reply,
    stats::Raised,
    subscriptions::{self, Prepared},
};
use scan::{Scan, ScanError};

/// Filters and messages that every connection may have, whatever its network has.
const OWN_BYTES: usize = 32 << 10;

/// A message that is worked on in its turn.
pub(super) enum Request {
    Subscribe {
        sub: String,
        prepared: Prepared,
    },
    Count {
        sub: String,
        filters: Vec<Filter>,
    },
    OpenExchange {
        sub: String,
        filter: Filter,
        first: Vec<u8>,
    },
    Exchange {
        sub: String,
        message: Vec<u8>,
    },
}

/// What an id stands for: each has ids of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Subscription,
    Count,
    Exchange,
}

impl Request {
    fn sort(&self) -> Sort {
        match self {
            Self::Subscribe { .. } => Sort::Subscription,
            Self::Count { .. } => Sort::Count,
            Self::OpenExchange { .. } | Self::Exchange { .. } => Sort::Exchange,
        }
    }

    fn sub(&self) -> &str {
        match self {
            Self::Subscribe { sub, .. }
            | Self::Count { sub, .. }
            | Self::OpenExchange { sub, .. }
            | Self::Exchange { sub, .. } => sub,
        }
    }

    /// How a refusal of it is said.
    pub(super) fn refused(&self) -> impl Fn(&str) -> bytes::Bytes + use<> {
        let (sort, sub) = (self.sort(), self.sub().to_owned());
        move |text| match sort {
            Sort::Subscription | Sort::Count => reply::closed(&sub, text),
            Sort::Exchange => reply::neg_err(&sub, text),
        }
    }

    fn size_bytes(&self) -> usize {
        let filters = |filters: &[Filter]| filters.iter().map(Filter::size_bytes).sum();
        match self {
            Self::Subscribe { prepared, .. } => prepared.bytes,
            Self::Count { filters: asked, .. } => filters(asked),
            Self::OpenExchange { filter, first, .. } => filter.size_bytes() + first.len(),
            Self::Exchange { message, .. } => message.len(),
        }
    }
}

/// The requests of a connection, those that wait and those that stay open; dropping it closes them.
pub(super) struct Requests {
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// A request waits.
    filled: Notify,
    /// One waits less.
    taken: Notify,
}

struct State {
    waiting: VecDeque<Waiting>,
    /// What is worked on.
    running: Option<(Sort, String, CancellationToken)>,
    open: HashMap<String, Open>,
    exchanges: Exchanges,
    /// Of all of these.
    bytes: usize,
    held: Held,
}

struct Waiting {
    request: Request,
    bytes: usize,
}

struct Open {
    key: subscriptions::Key,
    bytes: usize,
}

impl State {
    fn take(&mut self, bytes: usize, limit: usize) -> bool {
        let all = self.bytes + bytes;
        let fits = all <= limit && self.held.resize(all.saturating_sub(OWN_BYTES));
        if fits {
            self.bytes = all;
        }
        fits
    }

    fn give_back(&mut self, bytes: usize) {
        self.bytes -= bytes;
        self.held.resize(self.bytes.saturating_sub(OWN_BYTES));
    }

    /// Ends what waits or runs under an id.
    fn cancel(&mut self, sort: Sort, sub: &str) {
        let is_meant =
            |waiting: &Waiting| waiting.request.sort() == sort && waiting.request.sub() == sub;
        let mut bytes = 0;
        self.waiting.retain(|waiting| {
            let is_meant = is_meant(waiting);
            if is_meant {
                bytes += waiting.bytes;
            }
            !is_meant
        });
        self.give_back(bytes);
        if let Some((running, name, stop)) = &self.running
            && *running == sort
            && name == sub
        {
            stop.cancel();
        }
    }

    fn subscriptions(&self) -> usize {
        let waiting = self.waiting.iter();
        let waiting = waiting.filter(|waiting| waiting.request.sort() == Sort::Subscription);
        self.open.len() + waiting.count()
    }
}

impl Requests {
    pub(super) fn new(shared: &Arc<Shared>, held: Held) -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                running: None,
                open: HashMap::new(),
                exchanges: Exchanges::new(Arc::clone(&shared.stats)),
                bytes: 0,
                held,
            }),
            shared: Arc::clone(shared),
            filled: Notify::new(),
            taken: Notify::new(),
        }
    }

    /// Ends a subscription or a count.
    pub(super) fn close(&self, sub: &str) {
        self.state.lock().cancel(Sort::Count, sub);
        self.close_subscription(sub);
    }

    pub(super) fn close_subscription(&self, sub: &str) {
        self.state.lock().cancel(Sort::Subscription, sub);
        self.unsubscribe(sub);
    }

    /// Ends a subscription that is open; one that waits to take its place goes on waiting.
    fn unsubscribe(&self, sub: &str) {
        let mut state = self.state.lock();
        if let Some(open) = state.open.remove(sub) {
            state.give_back(open.bytes);
            drop(state);
            self.shared.subscriptions.unsubscribe(open.key);
        }
        self.taken.notify_one();
    }

    pub(super) fn close_exchange(&self, sub: &str) {
        let mut state = self.state.lock();
        state.cancel(Sort::Exchange, sub);
        state.exchanges.remove(sub);
        self.taken.notify_one();
    }

    /// Has a request worked on in its turn; a subscription or an exchange takes the place of that
    /// with its id. Waits when too many do. An error is the text of a refusal.
    pub(super) async fn submit(&self, request: Request) -> Result<(), String> {
        match &request {
            Request::Subscribe { sub, .. } => self.close_subscription(sub),
            Request::OpenExchange { sub, .. } => self.close_exchange(sub),
            Request::Count { .. } | Request::Exchange { .. } => {}
        }
        let limits = &self.shared.limits;
        let most = limits.subscriptions;
        let is_subscription = request.sort() == Sort::Subscription;
        if is_subscription && self.state.lock().subscriptions() >= most {
            return Err(format!(
                "rate-limited: more than {most} open subscriptions; close some first"
            ));
        }
        let bytes = request.size_bytes();
        if !self.state.lock().take(bytes, limits.subscription_bytes) {
            return Err(SUBSCRIPTIONS_TOO_LARGE.to_owned());
        }
        let mut waiting = Some(Waiting { request, bytes });
        loop {
            let taken = self.taken.notified();
            let mut taken = std::pin::pin!(taken);
            taken.as_mut().enable();
            if self.try_push(&mut waiting) {
                break;
            }
            taken.await;
        }
        self.filled.notify_one();
        Ok(())
    }

    fn try_push(&self, request: &mut Option<Waiting>) -> bool {
        let mut state = self.state.lock();
        let fits = state.waiting.len() < self.shared.limits.waiting_requests;
        if fits {
            state.waiting.extend(request.take());
        }
        fits
    }

    /// The next request, with what stops it.
    async fn next(&self) -> (Waiting, CancellationToken) {
        loop {
            if let Some(next) = self.try_next() {
                self.taken.notify_one();
                return next;
            }
            self.filled.notified().await;
        }
    }

    fn try_next(&self) -> Option<(Waiting, CancellationToken)> {
        let mut state = self.state.lock();
        let waiting = state.waiting.pop_front()?;
        let stop = CancellationToken::new();
        let name = waiting.request.sub().to_owned();
        state.running = Some((waiting.request.sort(), name, stop.clone()));
        Some((waiting, stop))
    }

    fn opened(&self, sub: &str, snapshot: Arc<Snapshot>) {
        let mut state = self.state.lock();
        state.exchanges.insert(sub.to_owned(), snapshot);
    }

    fn finished(&self, bytes: usize) {
        let mut state = self.state.lock();
        state.running = None;
        state.give_back(bytes);
    }

    /// Waits until an exchange has rested for too long; for ever if there is none.
    async fn exchange_rested(&self) {
        let limits = &self.shared.limits;
        let next = { self.state.lock().exchanges.next_idle(limits) };
        match next {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        for open in self.state.get_mut().open.values() {
            self.shared.subscriptions.unsubscribe(open.key);
        }
    }
}

/// Works on the requests of a connection for as long as it is polled.
pub(super) async fn run(connection: &Connection) {
    let requests = &connection.requests;
    loop {
        let (Waiting { request, bytes }, stop) = tokio::select! {
            biased;
            next = requests.next() => next,
            () = requests.exchange_rested() => {
                close_rested_exchanges(connection);
                continue;
            }
        };
        // What a subscription takes is given back where it is closed.
        let stays = request.sort() == Sort::Subscription;
        stop.run_until_cancelled(work(connection, request)).await;
        requests.finished(if stays { 0 } else { bytes });
    }
}

fn close_rested_exchanges(connection: &Connection) {
    let mut state = connection.requests.state.lock();
    let rested = state.exchanges.close_idle(&connection.shared.limits);
    drop(state);
    let text = "closed: the exchange was idle for too long";
    let frames = rested.iter().map(|sub| reply::neg_err(sub, text));
    connection.send_queue.answer(frames);
}

async fn work(connection: &Connection, request: Request) {
    let _working = Raised::new(&connection.shared.stats.read_queue);
    match request {
        Request::Subscribe { sub, prepared } => subscribe(connection, sub, prepared).await,
        Request::Count { sub, filters } => count(connection, &sub, filters).await,
        Request::OpenExchange { sub, filter, first } => {
            let opened = exchange::open(connection, &sub, filter, first).await;
            exchanged(connection, &sub, opened);
        }
        Request::Exchange { sub, message } => {
            let snapshot = { connection.requests.state.lock().exchanges.touch(&sub) };
            let answer = match snapshot {
                Ok(snapshot) => exchange::answer(connection, &sub, snapshot, message).await,
                Err(unknown) => Err(unknown),
            };
            exchanged(connection, &sub, answer);
        }
    }
}

/// Ends an exchange that has failed.
fn exchanged(connection: &Connection, sub: &str, answer: Result<(), Failure>) {
    if let Err(failure) = answer {
        if let Failure::Store(error) = &failure {
            tracing::error!(error = error as &dyn std::error::Error, "query failed");
        }
        connection.requests.state.lock().exchanges.remove(sub);
        let frame = reply::neg_err(sub, &failure.to_string());
        connection.send_queue.answer([frame]);
    }
}

/// Opens a subscription and sends what is stored.
async fn subscribe(connection: &Connection, sub: String, prepared: Prepared) {
    let Connection {
        shared,
        send_queue,
        requests,
        ..
    } = connection;
    let (filters, bytes) = (prepared.filters.clone(), prepared.bytes);
    // Before anything is read, so that nothing falls between stored and live.
    let key = shared.subscriptions.subscribe(send_queue, &sub, prepared);
    let open = Open { key, bytes };
    requests.state.lock().open.insert(sub.clone(), open);
    match stored_events::send(connection, &sub, filters).await {
        Ok(sent) => {
            send_queue.answer([reply::eose(&sub)]);
            shared.subscriptions.go_live(key, &sent);
        }
        Err(error) => {
            requests.unsubscribe(&sub);
            send_queue.answer([reply::closed(&sub, refusal(&error, "query"))]);
        }
    }
}

async fn count(connection: &Connection, sub: &str, filters: Vec<Filter>) {
    let mut scan = Scan::new(connection, Query::of_all(filters));
    let mut all = 0;
    let answer = loop {
        match scan
            .slice(0, |count, _| {
                *count += 1;
                Ok(true)
            })
            .await
        {
            Ok((count, is_done)) => {
                all += count;
                if is_done {
                    break reply::count(sub, all);
                }
            }
            Err(error) => break reply::closed(sub, refusal(&error, "count")),
        }
    };
    connection.send_queue.answer([answer]);
}

fn refusal(error: &ScanError, what: &str) -> &'static str {
    match error {
        ScanError::TooLong => {
            "blocked: this query is too big; narrow it by ids, authors, a tag, since or until"
        }
        ScanError::Store(error) => {
            tracing::error!(
                error = error as &dyn std::error::Error,
                what,
                "query failed"
            );
            "error: the query failed"
        }
    }
}

impl From<StoreError> for ScanError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}
