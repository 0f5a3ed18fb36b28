//! Fetches from the copy on this disk, and from the leader where it has to say whether an object that no
//! ref is at may be given out.

use std::{io, sync::Arc};

use futures_util::stream;
use grip_git::{
    FetchRequest, Payer,
    upload_request::{GitService, Protocol, ReadError, Request as V2},
};
use grip_types::RepoAddr;
use http::header;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio_util::io::ReaderStream;

use super::{Follower, FollowerRequest, Kept};
use crate::{
    body::Body,
    error::WebError,
    git::{
        Encoding, Patience, Reader, RequestHead, UPLOAD_PACK_RESULT, protocol, read_head,
        remote_error, reply, unreadable,
    },
    limits::Class,
    request_context::HttpResult,
    server::Connection,
};

/// Who answers a fetch.
enum Fetch {
    Answered(http::Response<Body>),
    /// The leader does: it wants objects by ids that no ref is at.
    OfLeader(FetchRequest),
}

impl Follower {
    /// Lists refs or makes a pack, once everything is here that was committed before.
    pub(super) async fn fetch(
        &self,
        asked: &FollowerRequest<'_>,
        body: Incoming,
        connection: &Arc<Connection>,
    ) -> HttpResult {
        let repo = asked.matched.repository.clone();
        let repo = repo.ok_or(WebError::BadRepositoryPath)?;
        let is_listing = asked.matched.route.label == "info-refs";
        let request = if is_listing {
            None
        } else {
            // Before the permit: a client that does not say what it wants holds up nobody else.
            match request(asked, body).await? {
                Ok(request) => Some(request),
                Err(broken) => return Ok(remote_error(UPLOAD_PACK_RESULT, &broken.to_string())),
            }
        };
        let class = if is_listing {
            Class::Advertise
        } else {
            Class::Fetch
        };
        let permit = self.permit(asked, class)?;
        if !self.replica.freshness.catch_up().await {
            return Err(WebError::Behind);
        }
        let mut response = match request {
            None => {
                let refs = self.refs(&repo).await?;
                let protocol = protocol(&asked.head.headers);
                let advertisement = refs.advertisement(GitService::UploadPack, protocol);
                reply("application/x-git-upload-pack-advertisement", advertisement)
            }
            Some((head, rest)) => {
                let fetch = self.upload_pack(asked, repo, head.followed_by(rest));
                match fetch.await? {
                    Fetch::Answered(response) => response,
                    Fetch::OfLeader(request) => {
                        let kept = Kept {
                            _permit: permit,
                            _connection: Arc::clone(connection),
                        };
                        return self.fetch_from_leader(asked, request, kept).await;
                    }
                }
            }
        };
        response.body_mut().hold(permit);
        Ok(response)
    }

    async fn upload_pack(
        &self,
        asked: &FollowerRequest<'_>,
        repo: RepoAddr,
        mut body: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<Fetch, WebError> {
        let protocol = protocol(&asked.head.headers);
        if protocol != Protocol::V2 {
            return self.pack(asked, repo, protocol, body).await;
        }
        let stall = asked.settings.timeouts.body_stall;
        let answer = match grip_git::upload_request::read(&mut body, stall).await {
            Ok(V2::Nothing) => reply(UPLOAD_PACK_RESULT, Body::empty()),
            Ok(V2::LsRefs(request)) => {
                let listing = self.refs(&repo).await?.ls_refs(&request);
                let pieces = stream::iter(listing.map(Ok));
                reply(UPLOAD_PACK_RESULT, Body::stream(pieces))
            }
            Ok(V2::Fetch(head)) => {
                let body = io::Cursor::new(head).chain(body);
                return self.pack(asked, repo, protocol, body).await;
            }
            Err(ReadError::Refused(refused)) => reply(UPLOAD_PACK_RESULT, refused.reply()),
            Err(broken) => remote_error(UPLOAD_PACK_RESULT, &broken.to_string()),
        };
        Ok(Fetch::Answered(answer))
    }

    async fn pack(
        &self,
        asked: &FollowerRequest<'_>,
        repo: RepoAddr,
        protocol: Protocol,
        body: impl AsyncRead + Send + Unpin + 'static,
    ) -> Result<Fetch, WebError> {
        let refuse = |broken: &io::Error| {
            let answer = remote_error(UPLOAD_PACK_RESULT, &broken.to_string());
            Ok(Fetch::Answered(answer))
        };
        // Unknown repositories are told apart from requests that cannot be read.
        self.refs(&repo).await?;
        let repositories = self.replica.repositories.clone();
        let mut request = match repositories.read_fetch(body).await {
            Ok(request) => request,
            Err(broken) => return refuse(&broken),
        };
        let (looking, named) = (repositories.clone(), repo.clone());
        let looked = self.blocking("refs", move || {
            let names_unshown = looking.names_unshown(&named, &mut request);
            (request, names_unshown)
        });
        let request = match looked.await? {
            (request, Ok(false)) => request,
            (request, Ok(true)) => return Ok(Fetch::OfLeader(request)),
            (_, Err(broken)) => return refuse(&broken),
        };
        let networks = asked.settings.limits.networks;
        let client = asked.client;
        let payer = if client.exempt {
            Payer::Unknown
        } else {
            Payer::Client(networks.network(client.ip))
        };
        let chunks = self.blocking("upload-pack", move || {
            repositories.upload_pack(&repo, protocol, payer, request.into_reader())
        });
        let chunks = chunks.await?.map_err(unreadable)?;
        let answer = reply(UPLOAD_PACK_RESULT, Body::stream(chunks));
        Ok(Fetch::Answered(answer))
    }

    /// Has the leader answer a fetch that was read here.
    async fn fetch_from_leader(
        &self,
        asked: &FollowerRequest<'_>,
        request: FetchRequest,
        kept: Kept,
    ) -> HttpResult {
        let mut head = asked.head.clone();
        // It was inflated, and is sent in chunks.
        head.headers.remove(header::CONTENT_ENCODING);
        head.headers.remove(header::CONTENT_LENGTH);
        let body = Body::stream(ReaderStream::new(request.into_reader()));
        self.forward(head, body, asked.client, kept).await
    }

    async fn refs(&self, repo: &RepoAddr) -> Result<Arc<grip_git::RefSnapshot>, WebError> {
        let (repositories, repo) = (self.replica.repositories.clone(), repo.clone());
        let refs = self.blocking("refs", move || repositories.refs(&repo));
        refs.await?.map_err(unreadable)
    }

    /// Runs `work` where it may block.
    async fn blocking<T: Send + 'static>(
        &self,
        kind: &'static str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WebError> {
        let handle = self.group.spawn_blocking(kind, work);
        let stopped = |e| WebError::internal("a reading task was stopped", e);
        handle.await.map_err(stopped)
    }
}

/// The beginning of a fetch request, and a reader of its rest; the inner error is one of the client.
async fn request(
    asked: &FollowerRequest<'_>,
    body: Incoming,
) -> Result<io::Result<(RequestHead, Reader)>, WebError> {
    let headers = &asked.head.headers;
    crate::git::check_content_type(headers, "application/x-git-upload-pack-request")?;
    let mut reader = Reader::new(body, Encoding::of(headers)?, Patience::of(asked.settings));
    let head = read_head(&mut reader).await;
    Ok(head.map(|head| (head, reader)))
}
