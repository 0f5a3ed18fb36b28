//! Remote signers (NIP-46): the key stays with a bunker, which is asked over a relay to sign a proof.
//!
//! The first request pairs with the signer by the secret of its `bunker://` URI. What that comes to, the
//! key of this client and the key of the user, is kept beside the URI: a secret may be good for one
//! pairing only.

use std::{io, path::Path, time::Duration};

use anyhow::{Context as _, bail, ensure};
use nostr::{
    nips::{
        nip44::Nip44 as _,
        nip46::{
            NostrConnectMessage, NostrConnectRequest, NostrConnectResponse, NostrConnectUri,
            ResponseResult,
        },
    },
    prelude::{
        Event, EventBuilder, FinalizeEvent as _, Keys, Kind, PublicKey, RelayUrl, Tag, Timestamp,
        UnsignedEvent,
    },
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::timeout;

use super::read_secret;
use crate::{commands::relay_client::RelayClient, private_file};

/// Relays of a signer that are tried.
const MAX_RELAYS: usize = 4;
/// How long the signer may take: a person may have to confirm.
const PATIENCE: Duration = Duration::from_secs(60);
const SUBSCRIPTION: &str = "bunker";

/// The signer that a URI names.
struct Signer {
    key: PublicKey,
    relays: Vec<RelayUrl>,
    secret: Option<String>,
}

/// What a pairing came to.
#[derive(Deserialize, Serialize)]
struct Pairing {
    signer: PublicKey,
    client_key: String,
    user: PublicKey,
}

/// Has the event signed that `event` makes for the key of the user.
#[tokio::main(flavor = "current_thread")]
pub(super) async fn sign(
    file: &Path,
    event: impl FnOnce(PublicKey) -> UnsignedEvent,
) -> anyhow::Result<Event> {
    let signer = Signer::parse(read_secret(file)?.trim())
        .with_context(|| format!("{} holds no bunker:// URI", file.display()))?;
    let kept = file.with_added_extension("pairing");
    let known = read_pairing(&kept)?.filter(|pairing| pairing.signer == signer.key);
    let pairing = match known {
        Some(pairing) => pairing,
        None => pair(&signer, &kept).await?,
    };
    let client = Keys::parse(&pairing.client_key)
        .with_context(|| format!("{} is damaged: remove it to pair again", kept.display()))?;
    let mut link = Link::open(&signer, client).await?;
    let wanted = event(pairing.user);
    let request = NostrConnectRequest::SignEvent(wanted.clone());
    match link.ask(&request).await? {
        ResponseResult::SignEvent(signed) => checked(*signed, &wanted),
        _ => bail!("the signer answered something else than a signature"),
    }
}

/// Makes sure that a signature is for what was asked for.
fn checked(signed: Event, wanted: &UnsignedEvent) -> anyhow::Result<Event> {
    let is_wanted = signed.id == wanted.compute_id() && signed.pubkey == wanted.pubkey;
    ensure!(
        is_wanted && signed.verify().is_ok(),
        "the signer signed something else than it was asked to"
    );
    Ok(signed)
}

impl Signer {
    fn parse(uri: &str) -> Option<Self> {
        let NostrConnectUri::Bunker {
            remote_signer_public_key: key,
            mut relays,
            secret,
        } = NostrConnectUri::parse(uri).ok()?
        else {
            return None;
        };
        relays.truncate(MAX_RELAYS);
        (!relays.is_empty()).then_some(Self {
            key,
            relays,
            secret,
        })
    }
}

async fn pair(signer: &Signer, kept: &Path) -> anyhow::Result<Pairing> {
    let client = Keys::generate();
    let client_key = client.secret_key().to_secret_hex();
    let mut link = Link::open(signer, client).await?;
    let connect = NostrConnectRequest::Connect {
        remote_signer_public_key: signer.key,
        secret: signer.secret.clone(),
    };
    match link.ask(&connect).await? {
        ResponseResult::Ack => {}
        ResponseResult::ConnectSecret(secret) if Some(&secret) == signer.secret.as_ref() => {}
        _ => bail!("the signer did not accept the pairing"),
    }
    let user = link.ask(&NostrConnectRequest::GetPublicKey).await?;
    let pairing = Pairing {
        signer: signer.key,
        client_key,
        user: user
            .to_get_public_key()
            .context("the signer did not say whose key it has")?,
    };
    let text = serde_json::to_string(&pairing)?;
    private_file::put(kept, &text)
        .with_context(|| format!("cannot keep the pairing in {}", kept.display()))?;
    Ok(pairing)
}

fn read_pairing(kept: &Path) -> anyhow::Result<Option<Pairing>> {
    match kept.try_exists() {
        Ok(true) => {}
        Ok(false) => return Ok(None),
        Err(error) => return Err(unreadable(kept, error)),
    }
    let pairing = serde_json::from_str(&read_secret(kept)?);
    let pairing = pairing
        .with_context(|| format!("{} is damaged: remove it to pair again", kept.display()))?;
    Ok(Some(pairing))
}

fn unreadable(path: &Path, error: io::Error) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("cannot read {}", path.display()))
}

/// A connection to a relay of the signer, on which its answers come.
struct Link {
    relay: RelayClient,
    client: Keys,
    signer: PublicKey,
}

impl Link {
    /// Opens the first of the relays that can be reached.
    async fn open(signer: &Signer, client: Keys) -> anyhow::Result<Self> {
        let mut failed = None;
        for relay in &signer.relays {
            match Self::subscribe(relay, signer.key, &client).await {
                Ok(relay) => {
                    return Ok(Self {
                        relay,
                        client,
                        signer: signer.key,
                    });
                }
                Err(error) => {
                    failed = Some(error.context(format!("cannot reach the signer at {relay}")));
                }
            }
        }
        Err(failed.context("the bunker URI names no relay")?)
    }

    async fn subscribe(
        relay: &RelayUrl,
        signer: PublicKey,
        client: &Keys,
    ) -> anyhow::Result<RelayClient> {
        let mut relay = RelayClient::connect(relay.as_str()).await?;
        let filter = json!({
            "kinds": [Kind::NostrConnect.as_u16()],
            "authors": [signer.to_hex()],
            "#p": [client.public_key().to_hex()],
            "since": Timestamp::now().as_secs().saturating_sub(60),
        });
        relay.send(&json!(["REQ", SUBSCRIPTION, filter])).await?;
        Ok(relay)
    }

    /// Sends a request and waits for the answer to it.
    async fn ask(&mut self, request: &NostrConnectRequest) -> anyhow::Result<ResponseResult> {
        let message = NostrConnectMessage::request(request);
        let text = serde_json::to_string(&message)?;
        let content = self.client.nip44_encrypt(&self.signer, &text);
        let content = content.context("cannot encrypt the request")?;
        let event = EventBuilder::new(Kind::NostrConnect, content)
            .tags([Tag::parse(["p", &self.signer.to_hex()])?])
            .finalize(&self.client)?;
        self.relay.send(&json!(["EVENT", event])).await?;
        let answer = timeout(PATIENCE, self.answer(&event, &message));
        let response = answer
            .await
            .context("the signer did not answer in time")??;
        let response = response.to_response(request.method());
        let NostrConnectResponse { result, error } =
            response.context("the answer of the signer cannot be read")?;
        match (result, error) {
            (_, Some(error)) if !error.is_empty() => bail!("the signer refused: {}", plain(&error)),
            (Some(result), _) => Ok(result),
            (None, _) => bail!("the signer answered nothing"),
        }
    }

    /// The message of the signer that answers `request`, which `event` carried.
    async fn answer(
        &mut self,
        event: &Event,
        request: &NostrConnectMessage,
    ) -> anyhow::Result<NostrConnectMessage> {
        loop {
            let frame = self.relay.next_unhurried().await?;
            match frame[0].as_str() {
                Some("OK") if frame[1] == event.id.to_hex() && frame[2] == false => {
                    let why = frame[3].as_str().unwrap_or_default();
                    bail!("the relay of the signer refused: {}", plain(why));
                }
                Some("CLOSED") if frame[1] == SUBSCRIPTION => {
                    let why = frame[2].as_str().unwrap_or_default();
                    bail!("the relay of the signer refused: {}", plain(why));
                }
                Some("EVENT") => {}
                _ => continue,
            }
            let Some(message) = self.read(&frame[2]) else {
                continue;
            };
            if message.id() != request.id() || !message.is_response() {
                continue;
            }
            // A person has to confirm first; the answer comes later, with the same id.
            match &message {
                NostrConnectMessage::Response {
                    result: Some(result),
                    error: Some(url),
                    ..
                } if result == "auth_url" => {
                    anstream::eprintln!("the signer wants you to confirm: {}", plain(url));
                }
                _ => return Ok(message),
            }
        }
    }

    /// A message that the signer has made for this client; none where it is anything else.
    fn read(&self, event: &serde_json::Value) -> Option<NostrConnectMessage> {
        let event: Event = serde_json::from_value(event.clone()).ok()?;
        if event.pubkey != self.signer || event.verify().is_err() {
            return None;
        }
        let text = self.client.nip44_decrypt(&self.signer, &event.content);
        serde_json::from_str(&text.ok()?).ok()
    }
}

/// Text of somebody else, for a terminal.
fn plain(text: &str) -> String {
    crate::commands::table::plain(text)
        .chars()
        .take(300)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_uris_of_bunkers_with_a_relay_are_taken() {
        let key = Keys::generate().public_key().to_hex();
        let good = format!("bunker://{key}?relay=wss%3A%2F%2Frelay.example&secret=x");
        let signer = Signer::parse(&good).unwrap();
        assert_eq!(signer.key.to_hex(), key);
        assert_eq!(signer.secret.as_deref(), Some("x"));
        assert_eq!(signer.relays.len(), 1);
        for bad in [
            String::new(),
            format!("bunker://{key}"),
            "bunker://npub1x?relay=wss%3A%2F%2Frelay.example".into(),
            format!("nostrconnect://{key}?relay=wss%3A%2F%2Frelay.example&secret=x"),
        ] {
            assert!(Signer::parse(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_signature_counts_for_exactly_what_was_asked_for() {
        let (user, other) = (Keys::generate(), Keys::generate());
        let at = Timestamp::from_secs(1_000);
        let wanted = |keys: &Keys, root: &str| {
            grip_nostr::unsigned_repository_proof(keys.public_key(), root, at)
        };
        let signed = |keys: &Keys, root: &str| {
            grip_nostr::repository_proof(keys, root, at).expect("a key signs")
        };
        let (root, elsewhere) = ("https://git.example/x.git", "https://git.example/y.git");
        assert!(checked(signed(&user, root), &wanted(&user, root)).is_ok());
        assert!(checked(signed(&other, root), &wanted(&user, root)).is_err());
        assert!(checked(signed(&user, elsewhere), &wanted(&user, root)).is_err());
        let mut forged = signed(&user, root);
        forged.sig = signed(&other, root).sig;
        assert!(checked(forged, &wanted(&user, root)).is_err());
    }
}
