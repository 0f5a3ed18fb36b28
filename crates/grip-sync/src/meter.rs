//! The meter of one fetch: what came, from when on, and who pays for it.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use grip_types::Owner;
use tokio::{
    io::{AsyncRead, ReadBuf},
    time::Instant,
};

use crate::download_budget::{DownloadBudget, Spent};

/// Counts the bytes of one fetch as they come.
pub struct Meter {
    received: AtomicU64,
    began: Instant,
    payers: Vec<Owner>,
    budget: Option<Arc<DownloadBudget>>,
    is_look: bool,
}

impl Meter {
    pub(crate) fn new(payers: Vec<Owner>, budget: &Arc<DownloadBudget>) -> Self {
        Self {
            payers,
            budget: Some(Arc::clone(budget)),
            ..Self::unpaid()
        }
    }

    /// One of a look at the refs of a server, whose bytes count against `payer`, who lists it and must
    /// have something left.
    pub fn of_look(payer: Owner, budget: &Arc<DownloadBudget>) -> Result<Self, Spent> {
        budget.check_look(&payer, Instant::now())?;
        Ok(Self {
            is_look: true,
            ..Self::new(vec![payer], budget)
        })
    }

    /// One whose bytes count against nobody.
    pub fn unpaid() -> Self {
        Self {
            received: AtomicU64::new(0),
            began: Instant::now(),
            payers: Vec::new(),
            budget: None,
            is_look: false,
        }
    }

    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.received.fetch_add(bytes, Relaxed);
        let Some(budget) = &self.budget else {
            return;
        };
        let now = Instant::now();
        if self.is_look {
            budget.charge_look(&self.payers, bytes, now);
        } else {
            budget.charge(&self.payers, bytes, now);
        }
    }

    /// Gives what came back to those who pay: it could not be kept because of this node.
    pub(crate) fn give_back(&self) {
        if let Some(budget) = &self.budget {
            budget.give_back(&self.payers, self.received());
        }
    }

    /// Bytes a second, from the beginning.
    pub(crate) fn rate(&self) -> u64 {
        let seconds = self.began.elapsed().as_secs().max(1);
        self.received() / seconds
    }

    /// For how long it goes on.
    pub(crate) fn age(&self) -> Duration {
        self.began.elapsed()
    }
}

/// The least that a host may send, on average over the time that it is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MinimumRate {
    pub(crate) bytes_per_second: u64,
    /// For so long it may send less: a server may have to count its objects first.
    pub(crate) grace: Duration,
}

/// A host sent too little for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host sent less than {0} bytes a second")]
pub(crate) struct TooSlow(u64);

/// A response that is metered as it is read.
///
/// Only the time counts in which the host is waited for, not that of the reader.
pub(crate) struct Metered<'a, R> {
    reader: R,
    meter: &'a Meter,
    minimum: MinimumRate,
    waited: Duration,
    waiting_since: Option<Instant>,
    received: u64,
}

impl<'a, R> Metered<'a, R> {
    pub(crate) fn new(reader: R, meter: &'a Meter, minimum: MinimumRate) -> Self {
        Self {
            reader,
            meter,
            minimum,
            waited: Duration::ZERO,
            waiting_since: None,
            received: 0,
        }
    }

    fn count(&mut self, bytes: u64) -> Result<(), TooSlow> {
        if let Some(since) = self.waiting_since.take() {
            self.waited += since.elapsed();
        }
        self.received += bytes;
        self.meter.add(bytes);
        let MinimumRate {
            bytes_per_second,
            grace,
        } = self.minimum;
        let least = bytes_per_second.saturating_mul(self.waited.as_secs());
        if bytes > 0 && self.waited > grace && self.received < least {
            return Err(TooSlow(bytes_per_second));
        }
        Ok(())
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Metered<'_, R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = Pin::new(&mut this.reader).poll_read(cx, buf);
        if read.is_pending() {
            this.waiting_since.get_or_insert_with(Instant::now);
        }
        ready!(read)?;
        let bytes = (buf.filled().len() - before) as u64;
        let counted = this.count(bytes);
        Poll::Ready(counted.map_err(|slow| std::io::Error::new(std::io::ErrorKind::TimedOut, slow)))
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        time::sleep,
    };

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const MINIMUM: MinimumRate = MinimumRate {
        bytes_per_second: 100,
        grace: Duration::from_secs(10),
    };

    /// Reads what comes in pieces of `bytes`, one every `pause`; says how long that went on.
    async fn trickle(bytes: usize, pause: Duration, reader_pause: Duration) -> Duration {
        let (mut host, client) = duplex(1 << 16);
        let meter = Meter::unpaid();
        let mut metered = Metered::new(client, &meter, MINIMUM);
        let began = Instant::now();
        let sending = async {
            for _ in 0..60 {
                sleep(pause).await;
                if host.write_all(&vec![0; bytes]).await.is_err() {
                    return;
                }
            }
            drop(host);
        };
        let reading = async {
            let mut piece = vec![0; 1 << 16];
            loop {
                sleep(reader_pause).await;
                match metered.read(&mut piece).await {
                    Ok(0) | Err(_) => break began.elapsed(),
                    Ok(_) => {}
                }
            }
        };
        tokio::select! {
            biased;
            took = reading => took,
            () = async { sending.await; std::future::pending().await } => unreachable!(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_trickles_is_given_up_after_its_grace() {
        assert_eq!(trickle(10, SECOND, Duration::ZERO).await, SECOND * 11);
        assert!(trickle(150, SECOND, Duration::ZERO).await >= SECOND * 60);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_the_reader_does_not_count() {
        let took = trickle(20, Duration::from_millis(50), SECOND * 2).await;
        assert!(took > SECOND * 3, "{took:?}");
        let meter = Meter::unpaid();
        meter.add(500);
        sleep(SECOND * 5).await;
        assert_eq!((meter.rate(), meter.received()), (100, 500));
    }
}
