//! The state that all tasks of the search share.

use std::{sync::Arc, time::Duration};

use grip_egress::{EgressError, Forbidden, Shown};
use grip_git::remote::RemoteError;
use grip_limits::{Lane, Queues, Throttle, response::ResponseKind};
use grip_purgatory::{FindProviders, Need, SyncContext, UrlAttempt};
use grip_tasks::CancellationToken;
use grip_types::Identifier;
use tokio::time::Instant;
use url::Url;

use crate::{
    download_budget::DownloadBudget,
    fetch::{Fetch, FetchError, Fetched, in_words},
    next_step,
    options::Options,
    plan::{Target, owner_of},
    search_memory::SearchMemory,
    sync::Parts,
    task_permits::TaskPermits,
};

pub(crate) struct Engine<C, F> {
    pub(crate) context: C,
    pub(crate) providers: Arc<dyn FindProviders>,
    pub(crate) fetch: F,
    pub(crate) throttle: Throttle,
    pub(crate) queues: Queues<Identifier>,
    pub(crate) options: Options,
    pub(crate) tasks: Arc<TaskPermits>,
    pub(crate) memory: Arc<SearchMemory>,
    pub(crate) budget: Arc<DownloadBudget>,
    /// Cancelled when fetches under way shall be given up.
    pub(crate) stop: CancellationToken,
}

impl<C: SyncContext, F: Fetch> Engine<C, F> {
    pub(crate) fn new(parts: Parts<C, F>, stop: CancellationToken) -> Self {
        let Parts {
            context,
            providers,
            fetch,
            throttle,
            options,
            group: _,
        } = parts;
        let queues = Queues::new(throttle.clone(), Lane::Git, options.queues);
        let tasks = TaskPermits::new(options.max_tasks, options.patience);
        let budget = DownloadBudget::new(options.downloads);
        Self {
            context,
            providers,
            fetch,
            throttle,
            queues,
            options,
            tasks: Arc::new(tasks),
            memory: Arc::default(),
            budget: Arc::new(budget),
            stop,
        }
    }

    /// Whether a URL may be asked at all. What is found out is remembered and noted once.
    pub(crate) fn may_ask(&self, identifier: &Identifier, url: &Url) -> bool {
        let now = Instant::now();
        if self.memory.is_forbidden(identifier, url, now) {
            return false;
        }
        let Err(forbidden) = self.fetch.check(url) else {
            return true;
        };
        self.forbid(identifier, url, &forbidden);
        if !is_own(&forbidden) {
            let step = next_step::of_forbidden(&forbidden);
            self.note(
                identifier,
                url,
                in_words(&forbidden),
                step,
                0,
                Duration::ZERO,
            );
        }
        false
    }

    /// Leaves out events whose authors made us download enough already.
    pub(crate) fn retain_paid(&self, identifier: &Identifier, needs: &mut Vec<Need>) {
        let now = Instant::now();
        needs.retain(|need| {
            let Err(spent) = self.budget.check(&owner_of(need), now) else {
                return true;
            };
            let url = need.urls.first();
            if let Some(url) = url.filter(|url| self.memory.may_note_spent(identifier, url, now)) {
                tracing::debug!(%identifier, event = %need.event, reason = %spent, "not fetching");
                let step = "raise sync_bytes_per_hour or sync_author_bytes_per_hour, or push the data here";
                self.note(identifier, url, in_words(&spent), step, 0, Duration::ZERO);
            }
            false
        });
    }

    pub(crate) fn forbid(&self, identifier: &Identifier, url: &Url, why: &Forbidden) {
        let url_shown = Shown(url);
        tracing::debug!(%identifier, url = %url_shown, reason = %why, "not asking a forbidden URL");
        self.memory.forbid(identifier, url, Instant::now());
    }

    /// Notes what came of asking a URL, for `explain`.
    pub(crate) fn note_result(
        &self,
        identifier: &Identifier,
        url: &Url,
        result: &Result<Fetched, FetchError>,
        took: Duration,
    ) {
        let (outcome, next_step, oids) = match result {
            Err(FetchError::Forbidden(forbidden)) if is_own(forbidden) => return,
            Ok(fetched) => {
                let oids = fetched.arrived.len();
                let step = if oids == 0 { next_step::PUSH } else { "" };
                (describe(fetched), step, oids)
            }
            Err(error) => (in_words(error), next_step::of(error), 0),
        };
        self.note(identifier, url, outcome, next_step, oids, took);
    }

    /// Notes that a URL is left alone, unless that is known.
    pub(crate) fn note_pause(&self, identifier: &Identifier, url: &Url, now: Instant) {
        let pause = self.memory.pauses().note(identifier, url, now);
        if let Some(pause) = pause {
            self.note(identifier, url, pause, "", 0, Duration::ZERO);
        }
    }

    /// Leaves a URL alone for a while that answered and had nothing for us, and no longer one
    /// that had. Other faults are the business of the throttle.
    pub(crate) fn pace(&self, target: &Target, result: &Result<Fetched, FetchError>) {
        let why = match result {
            Ok(fetched) if !fetched.arrived.is_empty() => {
                return self.memory.pauses().end(&target.url);
            }
            Ok(fetched) if fetched.resume => return,
            Ok(fetched) => describe(fetched),
            Err(error) if is_no(error) => in_words(error),
            Err(_) => return,
        };
        let (rule, now) = (self.options.url_pause, Instant::now());
        let mut pauses = self.memory.pauses();
        pauses.add(&target.url, &target.wants, why, rule, now);
    }

    fn note(
        &self,
        identifier: &Identifier,
        url: &Url,
        outcome: String,
        next_step: &str,
        oids: usize,
        took: Duration,
    ) {
        self.memory.note(UrlAttempt {
            identifier: identifier.clone(),
            url: Shown(url).to_string(),
            at: self.context.now().get(),
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            outcome,
            next_step: next_step.to_owned(),
            oids_fetched: oids,
            is_success: oids > 0,
        });
    }

    /// Logs why a URL brought nothing: as a warning once per host and minute.
    pub(crate) fn log_failure(&self, identifier: &Identifier, target: &Target, error: &FetchError) {
        let (url, reason) = (Shown(&target.url), in_words(error));
        let is_news = !matches!(
            error,
            FetchError::Forbidden(_) | FetchError::Throttled(_) | FetchError::GaveWay
        );
        let suppressed =
            is_news.then(|| self.memory.may_warn(Some(&target.domain), Instant::now()));
        if let Some(suppressed) = suppressed.flatten() {
            let next_step = next_step::of(error);
            tracing::warn!(%identifier, %url, reason, next_step, suppressed, "failed to fetch");
        } else {
            tracing::debug!(%identifier, %url, reason, "failed to fetch");
        }
    }

    /// Logs a fault of our own: as a warning once a minute.
    pub(crate) fn log_fault(
        &self,
        identifier: &Identifier,
        error: &(dyn std::error::Error + 'static),
    ) {
        let reason = in_words(error);
        if let Some(suppressed) = self.memory.may_warn(None, Instant::now()) {
            tracing::warn!(%identifier, reason, suppressed, "failed to look up missing objects");
        } else {
            tracing::debug!(%identifier, reason, "failed to look up missing objects");
        }
    }
}

/// Whether a URL is one of ours: nobody waits for what this node has itself to be fetched, and it is
/// no fault of anybody.
fn is_own(forbidden: &Forbidden) -> bool {
    matches!(forbidden, Forbidden::Own(_))
}

/// Whether a sound host said no, so that asking again soon is of no use.
fn is_no(error: &FetchError) -> bool {
    let remote = match error {
        FetchError::NothingWanted => return true,
        FetchError::Egress(EgressError::Status { kind, .. }) => {
            return matches!(kind, ResponseKind::ClientError | ResponseKind::AccessDenied);
        }
        FetchError::Egress(EgressError::Redirect(_)) => return true,
        FetchError::Remote(error) => Some(error),
        FetchError::Receive(error) => error.remote(),
        _ => None,
    };
    let is_no = |error: &RemoteError| {
        matches!(
            error,
            RemoteError::NotOurRef(_)
                | RemoteError::Refused(_)
                | RemoteError::NotSmart
                | RemoteError::UnsupportedVersion
                | RemoteError::TooManyRefs
        )
    };
    remote.is_some_and(is_no)
}

fn describe(fetched: &Fetched) -> String {
    match (fetched.arrived.len(), fetched.note.as_str()) {
        (0, "") => "remote returned none of the wanted objects".to_owned(),
        (_, "") => "fetched".to_owned(),
        (0, note) => note.to_owned(),
        (_, note) => format!("fetched; {note}"),
    }
}
