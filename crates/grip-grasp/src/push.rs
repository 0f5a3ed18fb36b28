//! Pushes: judged by their commands, received into quarantine, judged again in the identifier's
//! turn, and carried out whole or not at all.
//!
//! ```text
//! commands ─▶ allowed? ─▶ pack into quarantine ─▶ cut ─▶ turn ─▶ still allowed? ─▶ objects ─▶ refs ─▶ release
//!                └─ no: the upload is drained, the reason told                 └─ no: quarantine dropped
//! ```
//!
//! A pack is cut to what the new tips need and the store lacks. A push that changes nothing leaves
//! none of its bytes, and none leaves more than its refs reach. Tips that no event names yet are
//! staged in the receiving repository: their bytes are the share of who sent them.
//!
//! While the pack is incomplete, a client that goes away takes everything with it. Once it is
//! whole, the push is finished whether anybody waits for the answer or not.

mod judge;
mod land;
mod permits;
mod prolong;
mod reply;
mod request_bytes;
mod upload;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_git::{
    Caps, Payer, Quarantine, ReceiveError, Sender,
    push_request::{Capabilities, PushRequest, ReadError},
    report,
};
use grip_nostr::RepoAddr;
use grip_tasks::{CancellationToken, UploadProgress, WatchedUpload, fault};
use grip_types::{Charge, ClientNetwork, RefEdit};
use tokio::{io::AsyncRead, sync::oneshot};
use tracing::Instrument as _;

use crate::{
    Grasp,
    grasp::{Core, now},
};

pub(crate) use permits::PushPermits;
pub use reply::{PushReply, Unread};
pub(crate) use request_bytes::RequestBytes;

use judge::WantedTips;
use land::{Denied, Landed};
use request_bytes::{Contribution, TakenBytes};
use upload::{Upload, drain};

impl Grasp {
    /// Takes a push to `addr` from a client of `network`, or none where no bound per network
    /// applies. Returns once the upload is read; the body of the answer goes on with keep-alives
    /// until all is done.
    ///
    /// Dropping the future before it returns gives the push up.
    pub fn push<B>(
        &self,
        addr: RepoAddr,
        network: Option<ClientNetwork>,
        body: B,
    ) -> BoxFuture<'_, PushReply>
    where
        B: AsyncRead + Send + Unpin + 'static,
    {
        let progress = Arc::<UploadProgress>::default();
        let body = WatchedUpload::new(body, Arc::clone(&progress));
        self.push_watched(addr, network, body, progress)
    }

    /// The same for a body whose progress is noted where it comes from: what was sent counts, and not what
    /// it inflates to.
    pub fn push_watched<B>(
        &self,
        addr: RepoAddr,
        network: Option<ClientNetwork>,
        body: B,
        progress: Arc<UploadProgress>,
    ) -> BoxFuture<'_, PushReply>
    where
        B: AsyncRead + Send + Unpin + 'static,
    {
        self.core.take_push(addr, network, Box::new(body), progress)
    }
}

/// Events that one push may name by `refs/nostr/*`, which is for anybody to do in anybody's repository.
const MAX_EVENTS: usize = 256;
/// The same in a contributor repository, which has no others.
const MAX_CONTRIBUTED_EVENTS: usize = 500;

/// The body of a request, whatever it comes from.
type Body = Box<dyn AsyncRead + Send + Unpin>;

/// What a client asks for.
struct Push {
    addr: RepoAddr,
    /// None where no bound per network applies.
    network: Option<ClientNetwork>,
    commands: Vec<RefEdit>,
    has_pack: bool,
    capabilities: Capabilities,
}

impl Push {
    fn new(addr: RepoAddr, network: Option<ClientNetwork>, request: PushRequest) -> Self {
        let has_pack = request.has_pack();
        Self {
            addr,
            network,
            commands: request.commands,
            has_pack,
            capabilities: request.capabilities,
        }
    }

    /// Says whether it names a branch or a tag.
    fn moves_state_refs(&self) -> bool {
        self.commands.iter().any(|edit| edit.name.is_state_ref())
    }

    /// Refuses a push that names more events than one may: each is looked up and judged in the turn, for
    /// which others wait.
    fn check_events(&self) -> Result<(), Denied> {
        let names = self.commands.iter().map(|edit| &edit.name);
        let named = names.filter(|name| name.is_under_nostr()).count();
        let most = if self.addr.is_contributor() {
            MAX_CONTRIBUTED_EVENTS
        } else {
            MAX_EVENTS
        };
        if named > most {
            return Err(Denied::TooManyEvents { named, most });
        }
        Ok(())
    }

    /// Whose share of the staged bytes it may use up.
    fn sender(&self, wanted: &WantedTips) -> Sender {
        Sender {
            network: self.network.map(|network| network.to_string()),
            is_maintainer: wanted.moves_state_refs,
        }
    }

    fn refused(&self, reason: &str) -> Bytes {
        let names = self
            .commands
            .iter()
            .map(|command| command.name.as_str().as_bytes());
        report::refused(&self.capabilities, names, reason)
    }

    fn accepted(&self, messages: &[String]) -> Bytes {
        let messages: Vec<&str> = messages.iter().map(String::as_str).collect();
        let names = self.commands.iter().map(|command| &command.name);
        report::accepted(&self.capabilities, names, &messages)
    }
}

/// What of a push is of the budgets of strangers.
fn contribution<'a>(push: &'a Push, wanted: &'a WantedTips) -> Option<Contribution<'a>> {
    // What a contributor repository keeps has quotas of its own, which a deletion frees; copies of it may
    // stay elsewhere, so that what is sent is of the day of its network all the same.
    let repository = (!push.addr.is_contributor()).then_some(&push.addr);
    let has_budget = push.network.is_some() || repository.is_some();
    (wanted.is_contribution && has_budget).then_some(Contribution {
        network: push.network,
        authors: &wanted.authors,
        repository,
    })
}

impl Core {
    fn take_push(
        self: &Arc<Self>,
        addr: RepoAddr,
        network: Option<ClientNetwork>,
        mut body: Body,
        progress: Arc<UploadProgress>,
    ) -> BoxFuture<'_, PushReply> {
        Box::pin(async move {
            let stall = self.repositories.options().stall;
            match grip_git::push_request::read(&mut body, stall).await {
                // The probe that git sends ahead of a large push.
                Ok((request, _)) if request.commands.is_empty() => PushReply::whole(Bytes::new()),
                Ok((request, taken)) => {
                    let push = Push::new(addr, network, request);
                    self.push(push, Upload::new(taken, body), progress).await
                }
                Err(ReadError::Refused(error)) => {
                    self.refusals
                        .note_push(&addr, &error.to_string(), Vec::new());
                    PushReply::refused(error.reply(), body)
                }
                Err(error) => {
                    let capabilities = Capabilities::default();
                    PushReply::whole(report::refused(&capabilities, [], &error.to_string()))
                }
            }
        })
    }

    async fn push(
        self: &Arc<Self>,
        push: Push,
        (upload, at_end): (Upload<Body>, oneshot::Receiver<()>),
        progress: Arc<UploadProgress>,
    ) -> PushReply {
        let push = Arc::new(push);
        if let Err(denied) = push.check_events() {
            return PushReply::refused(self.deny(&push, denied), upload);
        }
        let moves_state_refs = push.moves_state_refs();
        let watched = Arc::clone(&progress);
        let permit = self
            .pushes
            .acquire(&push.addr, push.network, moves_state_refs, watched)
            .await;
        let Some(permit) = permit else {
            return PushReply::refused(self.deny(&push, Denied::Busy), upload);
        };
        let wanted = match self.allow(&push).await {
            Ok(wanted) => wanted,
            Err(denied) => return PushReply::refused(self.deny(&push, denied), upload),
        };
        if !wanted.moves_state_refs {
            permit.transfer().moves_nothing();
        }
        let keep_alive = report::keep_alive(&push.capabilities);
        // Dropped with this future: while the upload is under way, it ends with its client.
        let gone = CancellationToken::new();
        let client = gone.clone().drop_guard();
        let (answer, answered) = oneshot::channel();
        let core = Arc::clone(self);
        let pushing = async move {
            let _permit = permit;
            let claims = wanted.claims.clone();
            let receiving = core.receive_and_land(&push, wanted, upload, &progress, gone);
            let received = tokio::select! {
                received = receiving => received,
                () = core.keep_claims(&push, &claims, &progress) => None,
            };
            let Some(bytes) = received else {
                return;
            };
            // Nobody listens if the client has gone; the push is carried out all the same.
            let _ = answer.send(bytes);
        };
        // The log says from which address refs were changed.
        self.group.spawn("grasp.push", pushing.in_current_span());
        // An error means that the upload ended without reaching its end: the answer says why.
        let _ = at_end.await;
        client.disarm();
        PushReply::later(answered, keep_alive)
    }

    /// The answer to a push whose commands were allowed; none if its client went away.
    async fn receive_and_land(
        self: &Arc<Self>,
        push: &Arc<Push>,
        wanted: WantedTips,
        upload: Upload<Body>,
        progress: &Arc<UploadProgress>,
        gone: CancellationToken,
    ) -> Option<Bytes> {
        let is_contribution = contribution(push, &wanted).is_some();
        let ended = self.receive_or_give_up(push, wanted, upload, progress, gone);
        let ended = ended.await;
        let charge = match &ended {
            Some(Ok(_)) => Charge::Kept,
            Some(Err(denied)) => denied.charge(),
            None => Charge::Refused,
        };
        if is_contribution && charge == Charge::Refused {
            self.charge_refused(push.network, progress);
        }
        Some(match ended? {
            Ok(landed) => push.accepted(&landed.messages),
            Err(denied) => self.deny(push, denied),
        })
    }

    async fn receive_or_give_up(
        self: &Arc<Self>,
        push: &Arc<Push>,
        wanted: WantedTips,
        mut upload: Upload<Body>,
        progress: &Arc<UploadProgress>,
        gone: CancellationToken,
    ) -> Option<Result<Landed, Denied>> {
        let received = if push.has_pack {
            let receiving = self.receive(push, &wanted, &mut upload, progress);
            tokio::select! {
                received = receiving => received,
                () = progress.displaced() => return Some(Err(Denied::Displaced)),
                () = gone.cancelled() => return None,
            }
        } else {
            Ok(self.no_pack(&push.addr))
        };
        // Until the end of the body is read it makes room like any upload: a bad pack may be followed
        // by a body that trickles.
        tokio::select! {
            () = drain(&mut upload) => {}
            () = progress.displaced() => {}
        }
        if !progress.complete() {
            return Some(Err(Denied::Displaced));
        }
        fault::point("push.received");
        drop(upload);
        let landed = match received {
            Ok(quarantine) => self.land(push, quarantine, wanted).await,
            Err(denied) => Err(denied),
        };
        if landed.as_ref().is_ok_and(|landed| landed.moved_state_refs) {
            self.pushes.moved_state_refs(&push.addr, push.network);
        }
        Some(landed)
    }

    /// Receives the pack. Of one that would all be staged, no more is taken than fits.
    async fn receive(
        &self,
        push: &Push,
        wanted: &WantedTips,
        upload: &mut Upload<Body>,
        progress: &Arc<UploadProgress>,
    ) -> Result<Quarantine, Denied> {
        let options = self.repositories.options();
        let mut caps = Caps {
            max_pack_bytes: options.max_pack_bytes,
            stall: options.stall,
            payer: push.network.map_or(Payer::Unknown, Payer::Client),
            progress: Some(Arc::clone(progress)),
            disk_user: self.disk_user(&push.addr, wanted.moves_state_refs),
        };
        let sender = push.sender(wanted);
        let room = || self.repositories.staging_room(&push.addr, &sender);
        if wanted.signed.is_empty() && !wanted.staged.is_empty() {
            caps.max_pack_bytes = caps.max_pack_bytes.min(room()?);
        }
        let staging_limit = caps.max_pack_bytes;
        if !wanted.moves_state_refs {
            let room = self.contribution_room(push, wanted)?;
            caps.max_pack_bytes = room.map_or(staging_limit, |room| room.min(staging_limit));
        }
        let identifier = &push.addr.identifier;
        let repositories = &self.repositories;
        let received = if push.addr.is_contributor() {
            repositories.receive_apart(identifier, upload, caps).await
        } else {
            repositories.receive_within(identifier, upload, caps).await
        };
        match received {
            Err(ReceiveError::TooBig { limit }) if limit < staging_limit => {
                let limits = self.policy.load().pull_request_bytes;
                let contribution = contribution(push, wanted);
                Err(
                    contribution.map_or(Denied::Pack(ReceiveError::TooBig { limit }), |of| {
                        self.request_bytes.least(&of, &limits, now()).into()
                    }),
                )
            }
            Err(ReceiveError::TooBig { limit }) if limit < options.max_pack_bytes => {
                let full = self
                    .repositories
                    .check_staging(&push.addr, &sender, limit + 1, 1);
                Err(full
                    .err()
                    .map_or(Denied::Pack(ReceiveError::TooBig { limit }), Denied::from))
            }
            received => received.map_err(Denied::Pack),
        }
    }

    /// Bytes that a push of pull requests of others may bring; none where that has no bound of its own.
    fn contribution_room(&self, push: &Push, wanted: &WantedTips) -> Result<Option<u64>, Denied> {
        let Some(contribution) = contribution(push, wanted) else {
            return Ok(None);
        };
        let limits = self.policy.load().pull_request_bytes;
        let room = self.request_bytes.room(&contribution, &limits, now())?;
        Ok(Some(room))
    }

    /// Takes what a push brings of the budgets of those who bring it.
    fn contribute(
        &self,
        push: &Push,
        wanted: &WantedTips,
        bytes: u64,
    ) -> Result<Option<TakenBytes>, Denied> {
        let Some(contribution) = contribution(push, wanted) else {
            return Ok(None);
        };
        let limits = self.policy.load().pull_request_bytes;
        let taken = self
            .request_bytes
            .take(&contribution, bytes, &limits, now());
        Ok(Some(taken?))
    }

    /// Charges the network of a push that was refused for what it is, or broken off.
    fn charge_refused(&self, network: Option<ClientNetwork>, progress: &UploadProgress) {
        if let Some(network) = network {
            let (limits, bytes) = (
                self.policy.load().pull_request_bytes,
                progress.received_bytes(),
            );
            self.request_bytes
                .charge_refused(network, bytes, &limits, now());
        }
    }

    fn no_pack(&self, addr: &RepoAddr) -> Quarantine {
        if addr.is_contributor() {
            return self.repositories.no_pack_apart(&addr.identifier);
        }
        self.repositories.no_pack(&addr.identifier)
    }

    /// The answer that tells why nothing was done.
    fn deny(&self, push: &Push, denied: Denied) -> Bytes {
        let (reason, per_ref) = denied.reason();
        tracing::info!(repository = %push.addr, %reason, "push refused");
        self.refusals.count("push");
        self.refusals.note_push(&push.addr, &reason, per_ref);
        push.refused(&reason)
    }
}
