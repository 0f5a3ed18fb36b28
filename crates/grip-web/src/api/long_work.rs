//! Work for the operator that may take longer than a request: a task of its own, which every request for it
//! joins until it has ended.

use std::{future::Future, sync::Arc, time::Duration};

use grip_tasks::TaskGroup;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

/// How long one answer waits for the end.
const PATIENCE: Duration = Duration::from_secs(5);

/// A run that has ended and was not asked for in this time is of a client that is gone.
const ABANDONED: Duration = Duration::from_secs(60);

/// Work of one kind: the run that is under way, or that nobody has heard the end of.
pub(crate) struct LongWork<P, T> {
    /// With the time when it was asked for last.
    current: Mutex<Option<(Run<P, T>, Instant)>>,
}

/// One run: how far it is, and its end. Clones are of the same one.
pub(crate) struct Run<P, T> {
    progress: Arc<P>,
    end: watch::Receiver<Option<T>>,
}

/// What a request for the work learns.
pub(crate) enum Answer<P, T> {
    /// None if the node stopped before the end.
    Ended(Option<T>),
    UnderWay(Arc<P>),
}

impl<P, T> Default for LongWork<P, T> {
    fn default() -> Self {
        let current = Mutex::default();
        Self { current }
    }
}

impl<P, T> Clone for Run<P, T> {
    fn clone(&self) -> Self {
        Self {
            progress: Arc::clone(&self.progress),
            end: self.end.clone(),
        }
    }
}

impl<P: Default, T: Clone> LongWork<P, T> {
    /// Joins the run under way, or the new one that `start` begins, and waits for its end for a while. The
    /// next request after that begins another one.
    pub(crate) async fn join(&self, start: impl FnOnce() -> Run<P, T>) -> Answer<P, T> {
        let mut run = {
            let mut current = self.current.lock();
            // Its result is of an earlier time: that of today must not be taken for it.
            current
                .take_if(|(run, asked)| run.end.borrow().is_some() && asked.elapsed() > ABANDONED);
            let (run, asked) = current.get_or_insert_with(|| (start(), Instant::now()));
            *asked = Instant::now();
            run.clone()
        };
        match timeout(PATIENCE, run.ended()).await {
            Ok(ended) => {
                self.forget_run(&run);
                Answer::Ended(ended)
            }
            Err(_) => Answer::UnderWay(run.progress),
        }
    }

    /// Waits until no run is under way; what has ended is forgotten.
    pub(crate) async fn forget(&self) {
        let current = self.current.lock().as_ref().map(|(run, _)| run.clone());
        if let Some(mut run) = current {
            drop(run.ended().await);
            self.forget_run(&run);
        }
    }

    /// Forgets a run whose end was heard, unless another has begun since.
    fn forget_run(&self, run: &Run<P, T>) {
        let is_it = |(it, _): &mut (Run<P, T>, Instant)| Arc::ptr_eq(&it.progress, &run.progress);
        self.current.lock().take_if(is_it);
    }
}

impl<P: Default, T: Clone> Run<P, T> {
    /// Begins `work`, which notes how far it is.
    pub(crate) fn start<F>(
        group: &TaskGroup,
        kind: &'static str,
        work: impl FnOnce(Arc<P>) -> F,
    ) -> Self
    where
        P: Send + Sync + 'static,
        T: Send + Sync + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (told, end) = watch::channel(None);
        let progress = Arc::<P>::default();
        let work = work(Arc::clone(&progress));
        group.spawn(kind, async move {
            let ended = work.await;
            let _ = told.send(Some(ended));
        });
        Self { progress, end }
    }

    async fn ended(&mut self) -> Option<T> {
        self.end.wait_for(Option::is_some).await.ok()?.clone()
    }
}
