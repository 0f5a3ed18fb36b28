//! Dials: first what the relay says about itself, then the websocket, both by the egress guard and
//! within the limits of the host (G02-39, G02-42, G02-52 … G02-55).

use std::time::Duration;

use grip_egress::{Egress, EgressError, FaultKind, Forbidden, Request, RequestPolicy, Socket};
use grip_limits::{Lane, Refused};
use http::{HeaderMap, HeaderValue, Method, header::ACCEPT};
use serde::Deserialize;
use tokio::{
    io::AsyncReadExt as _,
    sync::{Mutex, Semaphore},
    time::{Instant, sleep_until, timeout},
};
use url::Url;

use crate::{RelayUrl, health::Loss, session::RemoteLimits};

/// Dials at once, and the time between their starts.
const MAX_DIALS: usize = 8;
const DIAL_SPACING: Duration = Duration::from_millis(250);
/// How long the document of a relay may take, and its size.
const DOCUMENT_TIME: Duration = Duration::from_secs(3);
const DOCUMENT_BYTES: u64 = 256 << 10;
/// Longest message: a state of 20,000 refs, in its frame.
const MAX_MESSAGE_BYTES: usize = 4 << 20;

/// Shares the right to dial among all relays.
pub(crate) struct Dialler {
    egress: Egress,
    /// For what the operator configured, which may be inside of his network.
    bootstrap: Egress,
    permits: Semaphore,
    next: Mutex<Instant>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    #[error(transparent)]
    Throttled(#[from] Refused),
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error("it advertises GRASP-08, and a public service does not follow private ones")]
    Private,
}

impl DialError {
    /// How the health of the relay counts it; none where no dial was made, with the time to wait.
    pub(crate) fn loss(&self) -> Result<Loss, Duration> {
        match self {
            Self::Throttled(refused) | Self::Egress(EgressError::Throttled(refused)) => {
                Err(refused.retry_at.saturating_duration_since(Instant::now()))
            }
            Self::Forbidden(_) | Self::Private | Self::Egress(EgressError::Forbidden(_)) => {
                Ok(Loss::Faulty)
            }
            Self::Egress(EgressError::Unreachable { source, .. })
                if matches!(
                    source.kind(),
                    FaultKind::Dns | FaultKind::Tls | FaultKind::Certificate
                ) =>
            {
                Ok(Loss::Faulty)
            }
            Self::Egress(EgressError::Unusable(_)) => Ok(Loss::Faulty),
            // What answers, but with a page, is no relay; a failing server may become one again.
            Self::Egress(EgressError::Status { status, .. })
                if !status.is_server_error() && status.as_u16() != 429 =>
            {
                Ok(Loss::Faulty)
            }
            Self::Egress(_) => Ok(Loss::Failed),
        }
    }
}

/// The part of NIP-11 that is read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    supported_nips: Option<Vec<serde_json::Value>>,
    supported_grasps: Vec<String>,
    limitation: Limitation,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Limitation {
    max_subscriptions: Option<i64>,
    default_limit: Option<i64>,
}

impl Dialler {
    pub(crate) fn new(egress: Egress, bootstrap: Egress) -> Self {
        Self {
            egress,
            bootstrap,
            permits: Semaphore::new(MAX_DIALS),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Says whether an address could be followed, as far as it tells itself.
    pub(crate) fn may_follow(&self, relay: &RelayUrl) -> bool {
        self.egress.check_websocket(&relay.url()).is_ok()
    }

    /// Connects. Cancel safe.
    pub(crate) async fn dial(
        &self,
        relay: &RelayUrl,
        is_configured: bool,
    ) -> Result<(Socket, RemoteLimits), DialError> {
        let _permit = self.permits.acquire().await.expect("never closed");
        self.space().await;
        let egress = if is_configured {
            &self.bootstrap
        } else {
            &self.egress
        };
        let url = relay.url();
        let limits = limits(egress, &url).await?;
        let domain = egress.check_websocket(&url)?;
        let permit = egress.throttle().acquire(&domain, Lane::Api).await?;
        let socket = egress.websocket(&url, MAX_MESSAGE_BYTES, permit).await?;
        Ok((socket, limits))
    }

    async fn space(&self) {
        let mut next = self.next.lock().await;
        let at = (*next).max(Instant::now());
        *next = at + DIAL_SPACING;
        drop(next);
        sleep_until(at).await;
    }
}

/// What a relay says about itself; one that says nothing is taken with the defaults.
async fn limits(egress: &Egress, url: &Url) -> Result<RemoteLimits, DialError> {
    let document = match timeout(DOCUMENT_TIME, document(egress, url)).await {
        Ok(Ok(document)) => document,
        Ok(Err(error @ (DialError::Forbidden(_) | DialError::Throttled(_)))) => return Err(error),
        Ok(Err(_)) | Err(_) => Document::default(),
    };
    if document
        .supported_grasps
        .iter()
        .any(|grasp| grasp == "GRASP-08")
    {
        return Err(DialError::Private);
    }
    let Limitation {
        max_subscriptions,
        default_limit,
    } = document.limitation;
    Ok(RemoteLimits {
        max_subscriptions: max_subscriptions.and_then(|most| usize::try_from(most).ok()),
        default_limit: default_limit.and_then(|limit| u64::try_from(limit).ok()),
        knows_nip77: document
            .supported_nips
            .map(|nips| nips.iter().any(|nip| nip.as_u64() == Some(77))),
    })
}

async fn document(egress: &Egress, url: &Url) -> Result<Document, DialError> {
    let mut http = url.as_str().replacen("ws", "http", 1);
    if !matches!(url.scheme(), "ws" | "wss") {
        http = url.to_string();
    }
    let url = Url::parse(&http).expect("a websocket's URL with another scheme");
    let domain = egress.check(&url)?;
    let permit = egress.throttle().acquire(&domain, Lane::Api).await?;
    let accept = HeaderValue::from_static("application/nostr+json");
    let request = Request {
        method: Method::GET,
        url,
        headers: HeaderMap::from_iter([(ACCEPT, accept)]),
        body: bytes::Bytes::new(),
        max_bytes: DOCUMENT_BYTES,
    };
    let policy = RequestPolicy {
        follow: false,
        ..RequestPolicy::default()
    };
    let mut reply = egress.send_with(&policy, request, permit).await?;
    let mut text = Vec::new();
    // Whatever is wrong with it, the relay may be all right.
    let read = reply.body.read_to_end(&mut text).await;
    let document = read.ok().and_then(|_| serde_json::from_slice(&text).ok());
    Ok(document.unwrap_or_default())
}
