//! Dials: first what the relay says about itself, then the websocket, both by the egress guard and
//! within the limits of the host (G02-39, G02-42, G02-52 … G02-55).

use std::{sync::Arc, time::Duration};

use futures_util::{SinkExt as _, StreamExt as _};
use grip_egress::{Egress, EgressError, FaultKind, Forbidden, RequestPolicy, Socket, WebSocket};
use grip_limits::{Lane, Refused};
use grip_nostr::relay_proof;
use nostr::prelude::Keys;
use tokio::{
    io::AsyncReadExt as _,
    sync::Mutex,
    time::{Instant, sleep_until, timeout},
};
use tokio_tungstenite::tungstenite::Message;
use url::Url;

use crate::{
    PrivatePeers, RelayUrl,
    document::{self, Document},
    health::Loss,
    named_peers::NamedPeers,
    relay_permits::RelayPermits,
    session::RemoteLimits,
};

/// Dials at once, and the time between their starts.
const MAX_DIALS: usize = 8;
const DIAL_SPACING: Duration = Duration::from_millis(250);
/// How long the document of a relay may take.
const DOCUMENT_TIME: Duration = Duration::from_secs(3);
/// How long a private service may take to let us in.
const LOGIN_TIME: Duration = Duration::from_secs(10);

/// Shares the right to dial among all relays.
pub(crate) struct Dialler {
    egress: Egress,
    /// For what the operator configured, which may be inside of his network.
    bootstrap: Egress,
    private: Arc<PrivatePeers>,
    max_message_bytes: usize,
    permits: RelayPermits,
    next: Mutex<Instant>,
    /// Peers of the DHT that the documents name.
    pub(crate) named_peers: NamedPeers,
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
    #[error("it is not known to be private, and what is asked for would tell it what is here")]
    Public,
    #[error("it is a private service and does not let this node in: {0}")]
    NotLetIn(String),
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
            // It lets us in as soon as it serves an announcement that names us (G08-13), which may
            // be at any moment; after a day it is asked once a day (G08-17).
            Self::Egress(_) | Self::NotLetIn(_) | Self::Public => Ok(Loss::Failed),
        }
    }
}

/// What somebody can do who reads that a relay is not reached.
pub(crate) const AGAIN: &str = "nothing to do here if it comes back: it is dialled again by itself; else announce another relay";
pub(crate) const ANNOUNCE: &str = "announce another relay: nothing is to be had from this one";

impl DialError {
    pub(crate) fn next_step(&self) -> &'static str {
        match self {
            Self::Forbidden(forbidden) | Self::Egress(EgressError::Forbidden(forbidden)) => {
                match forbidden {
                    Forbidden::Address { .. } | Forbidden::Name { .. } => {
                        "announce a relay at a public host; for those of your own network set \
                         sync_allow_non_global_targets"
                    }
                    _ => ANNOUNCE,
                }
            }
            Self::Egress(EgressError::Unreachable { source, .. }) => match source.kind() {
                FaultKind::Dns => {
                    "correct the host name in the announcements, or the DNS of this machine"
                }
                FaultKind::Tls | FaultKind::Certificate => {
                    "have that relay renew its certificate, or announce another"
                }
                FaultKind::NoRoute => "check the network of this machine",
                _ => AGAIN,
            },
            Self::Egress(EgressError::Unusable(_)) => ANNOUNCE,
            Self::Egress(EgressError::Status { status, .. })
                if !status.is_server_error() && status.as_u16() != 429 =>
            {
                "correct the URL in the announcements: what answers there is no relay for this node"
            }
            Self::Private | Self::Public => {
                "nothing to do here: public and private services do not follow each other"
            }
            Self::NotLetIn(_) => {
                "have an announcement that it serves list this node; it is asked again by itself"
            }
            Self::Throttled(_) | Self::Egress(_) => AGAIN,
        }
    }
}

impl Dialler {
    pub(crate) fn new(
        egress: Egress,
        bootstrap: Egress,
        private: Arc<PrivatePeers>,
        max_message_bytes: usize,
    ) -> Self {
        Self {
            egress,
            bootstrap,
            private,
            max_message_bytes,
            permits: RelayPermits::new(MAX_DIALS),
            next: Mutex::new(Instant::now()),
            named_peers: NamedPeers::default(),
        }
    }

    /// Says whether an address could be followed, as far as it tells itself.
    pub(crate) fn may_follow(&self, relay: &RelayUrl) -> bool {
        self.egress.check_websocket(&relay.url()).is_ok()
    }

    /// Says whether a clone URL may be asked for its refs.
    pub(crate) fn may_ask(&self, url: &Url) -> bool {
        self.egress.check(url).is_ok() && self.private.may_ask(url)
    }

    /// Connects. Cancel safe.
    pub(crate) async fn dial(
        &self,
        relay: &RelayUrl,
        is_configured: bool,
    ) -> Result<(Socket, RemoteLimits), DialError> {
        let _permit = self.permits.acquire(is_configured).await;
        self.space().await;
        let egress = if is_configured {
            &self.bootstrap
        } else {
            &self.egress
        };
        let url = relay.url();
        let document = describe(egress, &url).await?;
        if let Some(document) = &document {
            self.named_peers.note(relay, &document.dht);
        }
        // What said nothing this time may be what it was before.
        if let Some(document) = &document {
            let service = document.is_private().then(|| document.key());
            self.private.note(relay, service);
        }
        let keys = self.private.keys.as_ref();
        match (keys, self.private.is_private(&url)) {
            (None, true) => return Err(DialError::Private),
            (Some(_), false) => return Err(DialError::Public),
            (None, false) | (Some(_), true) => {}
        }
        let domain = egress.check_websocket(&url)?;
        let permit = egress.throttle().acquire(&domain, Lane::Api).await?;
        let connecting = egress.websocket(&url, self.max_message_bytes, permit);
        let mut socket = connecting.await?;
        if let Some(keys) = keys {
            let logging_in = log_in(&mut socket.stream, relay, keys);
            let too_slow = |_| Err(DialError::NotLetIn("it did not answer in time".into()));
            timeout(LOGIN_TIME, logging_in)
                .await
                .unwrap_or_else(too_slow)?;
        }
        Ok((socket, document.unwrap_or_default().limits()))
    }

    async fn space(&self) {
        let mut next = self.next.lock().await;
        let at = (*next).max(Instant::now());
        *next = at + DIAL_SPACING;
        drop(next);
        sleep_until(at).await;
    }
}

/// The document of a relay; none where it cannot be had.
async fn describe(egress: &Egress, url: &Url) -> Result<Option<Document>, DialError> {
    match timeout(DOCUMENT_TIME, document(egress, url)).await {
        Ok(Ok(document)) => Ok(document),
        Ok(Err(error @ (DialError::Forbidden(_) | DialError::Throttled(_)))) => Err(error),
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

/// Proves our key to a private service (NIP-42, G08-15).
async fn log_in(socket: &mut WebSocket, relay: &RelayUrl, keys: &Keys) -> Result<(), DialError> {
    let lost = || DialError::NotLetIn("the connection broke".into());
    let mut proved = None;
    while let Some(frame) = socket.next().await {
        let Message::Text(text) = frame.map_err(|_| lost())? else {
            continue;
        };
        let Ok(serde_json::Value::Array(parts)) = serde_json::from_str(&text) else {
            continue;
        };
        let part = |at: usize| parts.get(at).and_then(|part| part.as_str());
        match (part(0), &proved) {
            (Some("AUTH"), None) => {
                let challenge = part(1).unwrap_or_default();
                let proof = relay_proof(keys, relay.as_str(), challenge);
                let proof = proof.ok_or_else(|| DialError::NotLetIn("no proof".into()))?;
                let message = serde_json::json!(["AUTH", proof]).to_string();
                let sent = socket.send(Message::text(message)).await;
                sent.map_err(|_| lost())?;
                proved = Some(proof.id.to_hex());
            }
            (Some("OK"), Some(id)) if part(1) == Some(id) => {
                return match parts.get(2) {
                    Some(serde_json::Value::Bool(true)) => Ok(()),
                    _ => {
                        let why = part(3).unwrap_or_default().chars().take(100);
                        Err(DialError::NotLetIn(why.collect()))
                    }
                };
            }
            _ => {}
        }
    }
    Err(lost())
}

async fn document(egress: &Egress, url: &Url) -> Result<Option<Document>, DialError> {
    let request = document::request(url);
    let domain = egress.check(&request.url)?;
    let permit = egress.throttle().acquire(&domain, Lane::Api).await?;
    let policy = RequestPolicy {
        follow: false,
        ..RequestPolicy::default()
    };
    let mut reply = egress.send_with(&policy, request, permit).await?;
    let mut text = Vec::new();
    // Whatever is wrong with it, the relay may be all right.
    let read = reply.body.read_to_end(&mut text).await;
    Ok(read.ok().and_then(|_| Document::parse(&text)))
}
