//! Fetch of one avatar from its host into the store.

use grip_db::DbError;
use grip_egress::{Egress, EgressError, Forbidden, Reply, Request, RequestPolicy};
use grip_limits::{Lane, Refused, response::ResponseKind};
use grip_queue::{Failure, Outcome};
use grip_types::{Domain, ErrorChain};
use http::{
    HeaderMap, HeaderValue, Method,
    header::{ACCEPT, ETAG, IF_NONE_MATCH},
};
use tokio::{io::AsyncReadExt as _, time::Instant};
use url::Url;

use super::{
    Context, MAX_BYTES,
    avatar_rows::{Kept, Wanted},
    picture::Picture,
};
use crate::jobs::millis;

/// How soon it is tried again what database or store were in the way of.
const AWAY_MS: i64 = 5_000;
/// Longest address and longest mark of a state that are kept.
const MAX_TEXT: usize = 2_048;

/// Why a picture was not fetched.
#[derive(Debug)]
pub(super) enum FetchError {
    Database(DbError),
    Store(object_store::Error),
    Refused(Refused),
    /// The host failed, or wants to be left alone for so long.
    Host {
        wait_ms: Option<i64>,
        why: String,
    },
}

impl From<DbError> for FetchError {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

/// The host's response.
enum Response {
    Unchanged,
    New {
        picture: Picture,
        etag: Option<String>,
    },
    /// There is no picture, and asking again does not help.
    Nothing(String),
}

impl Context {
    /// Fetches the picture of the person with this id.
    pub(super) async fn fetch(&self, key: &str) -> Result<Outcome, FetchError> {
        let Ok(user) = key.parse::<i64>() else {
            return Ok(Outcome::Failed(Failure::permanent("the key is no id")));
        };
        let Some(wanted) = self.rows.wanted(user).await? else {
            return Ok(Outcome::Done);
        };
        match self.send(&wanted).await? {
            Response::Unchanged => self.rows.touch(user).await?,
            Response::New { picture, etag } => self.keep(user, wanted, picture, etag).await?,
            Response::Nothing(why) => self.rows.put_reason(user, &wanted.url, &why).await?,
        }
        Ok(Outcome::Done)
    }

    /// The picture first, then the row that names it; then the picture that nobody has any more.
    async fn keep(
        &self,
        user: i64,
        wanted: Wanted,
        picture: Picture,
        etag: Option<String>,
    ) -> Result<(), FetchError> {
        self.pictures
            .put(&picture)
            .await
            .map_err(FetchError::Store)?;
        let kept = Kept {
            url: wanted.url,
            digest: picture.digest.clone(),
            kind: picture.kind.media_type(),
            bytes: picture.bytes.len(),
            etag,
        };
        self.rows.put(user, kept).await?;
        match wanted.digest {
            Some(old) if old != picture.digest => self.remove_unused(&old).await,
            _ => Ok(()),
        }
    }

    /// Removes a picture that nobody has any more.
    pub(super) async fn remove_unused(&self, digest: &str) -> Result<(), FetchError> {
        if self.rows.is_named(digest).await? {
            return Ok(());
        }
        self.pictures
            .remove(digest)
            .await
            .map_err(FetchError::Store)
    }

    async fn send(&self, wanted: &Wanted) -> Result<Response, FetchError> {
        let url = Url::parse(&wanted.url).ok();
        let Some(url) = url.filter(|url| url.as_str().len() <= MAX_TEXT) else {
            return Ok(Response::Nothing("its address is no URL".to_owned()));
        };
        let (egress, domain) = match self.way(&url) {
            Ok(way) => way,
            Err(forbidden) => return Ok(Response::Nothing(forbidden.to_string())),
        };
        let permit = egress.throttle().acquire(&domain, Lane::Api).await;
        let permit = permit.map_err(FetchError::Refused)?;
        let terms = RequestPolicy {
            any_status: true,
            ..RequestPolicy::default()
        };
        let request = request(url, wanted.etag.as_deref());
        match egress.send_with(&terms, request, permit).await {
            Ok(reply) => read_response(reply).await,
            Err(error) => failed(error),
        }
    }

    /// The way to an address: the operator's to the hosts that he named, and that for strangers
    /// to all others.
    fn way(&self, url: &Url) -> Result<(&Egress, Domain), Forbidden> {
        if let Ok(domain) = self.named.check(url)
            && self.options.hosts.contains(&domain)
        {
            return Ok((&self.named, domain));
        }
        let domain = self.egress.check(url)?;
        Ok((&self.egress, domain))
    }

    /// The outcome of a job that failed.
    pub(super) fn after(&self, error: FetchError) -> Outcome {
        let now = self.rows.now_ms();
        let later = |wait_ms: i64, reason: String| Outcome::Postponed {
            until_ms: now.saturating_add(wait_ms),
            reason,
        };
        match error {
            FetchError::Database(error) if error.is_transient() => {
                later(AWAY_MS, error.to_string())
            }
            FetchError::Database(error) => Outcome::Failed(Failure::transient(error.to_string())),
            FetchError::Store(error) => {
                tracing::warn!(%error, "the store of pictures cannot be used");
                Outcome::Failed(Failure::transient(error.to_string()))
            }
            FetchError::Refused(refused) => {
                let wait = refused.retry_at.saturating_duration_since(Instant::now());
                later(millis(wait), refused.to_string())
            }
            FetchError::Host {
                wait_ms: Some(wait),
                why,
            } => Outcome::Failed(Failure::rate_limited(now.saturating_add(wait), why)),
            FetchError::Host { wait_ms: None, why } => Outcome::Failed(Failure::transient(why)),
        }
    }
}

fn request(url: Url, etag: Option<&str>) -> Request {
    let mut headers = HeaderMap::new();
    let accepted = "image/png, image/jpeg, image/gif, image/webp";
    headers.insert(ACCEPT, HeaderValue::from_static(accepted));
    if let Some(etag) = etag.and_then(|etag| HeaderValue::from_str(etag).ok()) {
        headers.insert(IF_NONE_MATCH, etag);
    }
    Request {
        method: Method::GET,
        url,
        headers,
        body: bytes::Bytes::new(),
        max_bytes: MAX_BYTES as u64,
    }
}

async fn read_response(mut reply: Reply) -> Result<Response, FetchError> {
    let status = reply.status;
    match reply.reading.kind {
        ResponseKind::NotModified => return Ok(Response::Unchanged),
        ResponseKind::Fine if status.is_success() => {}
        ResponseKind::RateLimited { .. } => {
            let wait = reply.reading.advice.map(|advice| millis(advice.wait));
            return Err(FetchError::Host {
                wait_ms: Some(wait.unwrap_or(60_000)),
                why: format!("the host refused by a rate limit, with status {status}"),
            });
        }
        ResponseKind::ServerError => {
            return Err(FetchError::Host {
                wait_ms: None,
                why: format!("the host failed with status {status}"),
            });
        }
        _ => {
            return Ok(Response::Nothing(format!(
                "the host answered with status {status}"
            )));
        }
    }
    let etag = reply.headers.get(ETAG).and_then(|etag| etag.to_str().ok());
    let etag = etag
        .filter(|etag| etag.len() <= MAX_TEXT)
        .map(str::to_owned);
    let mut bytes = Vec::new();
    if let Err(error) = reply.body.read_to_end(&mut bytes).await {
        let inner = error.into_inner().and_then(|error| error.downcast().ok());
        let error: Box<EgressError> = inner.expect("because a body fails with a reason");
        return failed(*error);
    }
    Ok(match Picture::new(bytes.into()) {
        Ok(picture) => Response::New { picture, etag },
        Err(why) => Response::Nothing(why.to_string()),
    })
}

fn failed(error: EgressError) -> Result<Response, FetchError> {
    match error {
        EgressError::Throttled(refused) => Err(FetchError::Refused(refused)),
        error @ (EgressError::Forbidden(_)
        | EgressError::TooBig { .. }
        | EgressError::Redirect(_)) => Ok(Response::Nothing(error.to_string())),
        error => Err(FetchError::Host {
            wait_ms: None,
            why: ErrorChain(&error).to_string(),
        }),
    }
}
