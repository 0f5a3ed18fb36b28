//! Keys that stay with a remote signer (NIP-46), over a relay of another make.

use std::{
    cell::RefCell,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail, ensure};
use grip_testkit::{Author, GitOutput, PythonRelay, RelayClient, WorkTree, events::tag};
use nostr::{
    nips::{
        nip44::Nip44 as _,
        nip46::{NostrConnectMessage, NostrConnectRequest, NostrConnectResponse, ResponseResult},
    },
    prelude::{Event, PublicKey, SignEvent as _, UnsignedEvent},
};
use serde_json::json;

use super::{MAIN, Person, announcement, private_node};

/// How a signer answers.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Honest,
    /// Signs, but for another repository.
    Lying,
    Refusing,
}

/// A remote signer that keeps somebody's key and takes its secret once.
struct Bunker {
    relay: RelayClient,
    own: Author,
    user: Author,
    manner: Manner,
    secret: Option<String>,
    clients: Vec<PublicKey>,
    seen: RefCell<Vec<String>>,
}

impl Bunker {
    async fn start(relay: &PythonRelay, user: &Author, manner: Manner) -> Result<Self> {
        let own = Author::new();
        let mut client = RelayClient::connect(&relay.url()).await?;
        let filter = json!({ "kinds": [24_133], "#p": [own.hex()] });
        client.subscribe(&[filter]).await?;
        Ok(Self {
            relay: client,
            own,
            user: user.clone(),
            manner,
            secret: Some("once".into()),
            clients: Vec::new(),
            seen: RefCell::default(),
        })
    }

    /// Writes its URI into a file of the person.
    fn uri_file(&self, relay: &PythonRelay, person: &Person) -> Result<PathBuf> {
        let file = person.home.path().join("bunker");
        let relay = relay.url().replace(':', "%3A").replace('/', "%2F");
        let uri = format!("bunker://{}?relay={relay}&secret=once\n", self.own.hex());
        fs::write(&file, uri)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        Ok(file)
    }

    /// Answers what clients ask, for ever.
    async fn serve(&mut self) -> Result<()> {
        loop {
            let frame = self.relay.expect("a request", |it| it[0] == "EVENT").await;
            // Nobody asks for a while.
            let Ok(frame) = frame else { continue };
            let event: Event = serde_json::from_value(frame[2].clone())?;
            self.answer(&event).await?;
        }
    }

    async fn answer(&mut self, event: &Event) -> Result<()> {
        let keys = &self.own.keys;
        let text = keys.nip44_decrypt(&event.pubkey, &event.content)?;
        let message: NostrConnectMessage = serde_json::from_str(&text)?;
        let id = message.id().to_owned();
        let request = message.to_request()?;
        self.seen.borrow_mut().push(request.method().to_string());
        let response = self.decide(request, event.pubkey)?;
        let text = serde_json::to_string(&NostrConnectMessage::response(id, response))?;
        let content = self.own.keys.nip44_encrypt(&event.pubkey, &text)?;
        let to = vec![tag(["p", &event.pubkey.to_hex()])];
        let answer = self.own.sign(24_133, &content, to);
        self.relay.send(json!(["EVENT", answer])).await
    }

    fn decide(
        &mut self,
        request: NostrConnectRequest,
        client: PublicKey,
    ) -> Result<NostrConnectResponse> {
        let result = match request {
            NostrConnectRequest::Connect { secret, .. } => {
                if secret.is_none() || secret != self.secret.take() {
                    return Ok(NostrConnectResponse::with_error("the secret was used"));
                }
                self.clients.push(client);
                ResponseResult::Ack
            }
            _ if !self.clients.contains(&client) => {
                return Ok(NostrConnectResponse::with_error("not paired"));
            }
            NostrConnectRequest::GetPublicKey => ResponseResult::GetPublicKey(self.user.pubkey()),
            NostrConnectRequest::SignEvent(_) if self.manner == Manner::Refusing => {
                return Ok(NostrConnectResponse::with_error("the user said no"));
            }
            NostrConnectRequest::SignEvent(wanted) => {
                let signed = self.user.keys.sign_event(self.distort(wanted))?;
                ResponseResult::SignEvent(Box::new(signed))
            }
            other => bail!("{other:?} is not needed"),
        };
        Ok(NostrConnectResponse::with_result(result))
    }

    fn distort(&self, wanted: UnsignedEvent) -> UnsignedEvent {
        if self.manner == Manner::Honest {
            return wanted;
        }
        let tags = wanted.tags.iter().filter(|tag| tag.kind() != "u").cloned();
        UnsignedEvent::new(wanted.pubkey, wanted.created_at, wanted.kind, tags, "")
    }

    /// Serves while `work` goes on.
    async fn during<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            ended = self.serve() => {
                ended?;
                bail!("a signer serves for ever")
            }
        }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.take()
    }
}

/// A member whose key is with the bunker: git is set up with its URI alone.
async fn git(person: &Person, file: &Path, at: &WorkTree, args: &[&str]) -> Result<GitOutput> {
    person
        .git_with("--bunker-file", file, at.path(), args)
        .await
}

#[tokio::test]
async fn a_member_whose_key_is_with_a_bunker_pairs_once_and_works_with_plain_git() -> Result<()> {
    let ada = Person::new()?;
    let (node, relay) = (private_node(&[&ada]).await?, PythonRelay::start().await?);
    let mut bunker = Bunker::start(&relay, &ada.author, Manner::Honest).await?;
    let file = bunker.uri_file(&relay, &ada)?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let mut publisher = ada.relay(&node).await?;
    let announced = announcement(&ada.author, &ada.author, &[&node]);
    publisher.publish_ok(&announced).await?;
    let state = ada.author.state("tides", &[(MAIN, &tip)], Some(MAIN));
    publisher.publish_ok(&state).await?;
    let url = ada.author.clone_url(&node.authority(), "tides");
    let push = ["push", &url, MAIN];
    let pushed = bunker.during(git(&ada, &file, &tree, &push)).await?;
    pushed.text()?;
    let seen = bunker.seen();
    let first: Vec<&str> = seen.iter().take(3).map(String::as_str).collect();
    ensure!(
        first == ["connect", "get_public_key", "sign_event"],
        "{seen:?}"
    );
    let paired = file.with_extension("pairing");
    let mode = fs::metadata(&paired)?.permissions().mode();
    ensure!(mode & 0o777 == 0o600, "{mode:o}");
    let list = ["ls-remote", &url, MAIN];
    let listed = bunker.during(git(&ada, &file, &tree, &list)).await?;
    let listed = listed.text()?;
    ensure!(listed.starts_with(&tip), "{listed}");
    let seen = bunker.seen();
    ensure!(seen.iter().all(|it| it == "sign_event"), "{seen:?}");
    // A key that is no member's opens nothing, with a bunker as without.
    let eve = Person::new()?;
    let mut bunker = Bunker::start(&relay, &eve.author, Manner::Honest).await?;
    let file = bunker.uri_file(&relay, &eve)?;
    let refused = bunker.during(git(&eve, &file, &tree, &list)).await?;
    ensure!(
        !refused.ok && refused.stderr.contains("Authentication failed"),
        "{refused:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_bunker_that_refuses_or_signs_something_else_is_told_apart() -> Result<()> {
    let relay = PythonRelay::start().await?;
    let ada = Person::new()?;
    let node = private_node(&[&ada]).await?;
    let url = ada.author.clone_url(&node.authority(), "tides");
    let tree = WorkTree::init()?;
    let list = ["ls-remote", &url];
    for (manner, text) in [
        (Manner::Lying, "signed something else than it was asked to"),
        (Manner::Refusing, "the signer refused: the user said no"),
    ] {
        let ada = Person {
            author: ada.author.clone(),
            home: tempfile::TempDir::new()?,
        };
        let mut bunker = Bunker::start(&relay, &ada.author, manner).await?;
        let file = bunker.uri_file(&relay, &ada)?;
        let asked = bunker.during(git(&ada, &file, &tree, &list)).await?;
        ensure!(!asked.ok && asked.stderr.contains(text), "{asked:?}");
    }
    // Nobody listens: the helper says so, and git ends.
    let file = ada.home.path().join("gone");
    let key = Author::new().hex();
    fs::write(
        &file,
        format!("bunker://{key}?relay=ws%3A%2F%2F127.0.0.1%3A9"),
    )?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
    let asked = git(&ada, &file, &tree, &list).await?;
    let error = asked.stderr.lines().next().context("it says why")?;
    ensure!(
        !asked.ok && error.contains("cannot reach the signer"),
        "{asked:?}"
    );
    Ok(())
}
