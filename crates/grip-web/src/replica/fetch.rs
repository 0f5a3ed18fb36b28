//! Fetches from the copy on this disk.

use std::io;

use futures_util::stream;
use grip_git::{
    Payer,
    upload_request::{GitService, Protocol, ReadError, Request as V2},
};
use grip_types::RepoAddr;
use hyper::body::Incoming;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::{Follower, FollowerRequest};
use crate::{
    body::Body,
    error::WebError,
    git::{
        Encoding, Patience, Reader, RequestHead, UPLOAD_PACK_RESULT, protocol, read_head,
        remote_error, reply, unreadable,
    },
    limits::Class,
    request_context::HttpResult,
};

impl Follower {
    /// Lists refs or makes a pack, once everything is here that was committed before.
    pub(super) async fn fetch(&self, asked: &FollowerRequest<'_>, body: Incoming) -> HttpResult {
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
                self.upload_pack(asked, repo, head.followed_by(rest))
                    .await?
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
    ) -> HttpResult {
        let protocol = protocol(&asked.head.headers);
        if protocol != Protocol::V2 {
            return self.pack(asked, repo, protocol, body).await;
        }
        let stall = asked.settings.timeouts.body_stall;
        match grip_git::upload_request::read(&mut body, stall).await {
            Ok(V2::Nothing) => Ok(reply(UPLOAD_PACK_RESULT, Body::empty())),
            Ok(V2::LsRefs(request)) => {
                let listing = self.refs(&repo).await?.ls_refs(&request);
                let pieces = stream::iter(listing.map(Ok));
                Ok(reply(UPLOAD_PACK_RESULT, Body::stream(pieces)))
            }
            Ok(V2::Fetch(head)) => {
                let body = io::Cursor::new(head).chain(body);
                self.pack(asked, repo, protocol, body).await
            }
            Err(ReadError::Refused(refused)) => Ok(reply(UPLOAD_PACK_RESULT, refused.reply())),
            Err(broken) => Ok(remote_error(UPLOAD_PACK_RESULT, &broken.to_string())),
        }
    }

    async fn pack(
        &self,
        asked: &FollowerRequest<'_>,
        repo: RepoAddr,
        protocol: Protocol,
        body: impl AsyncRead + Send + Unpin + 'static,
    ) -> HttpResult {
        let networks = asked.settings.limits.networks;
        let client = asked.client;
        let payer = if client.exempt {
            Payer::Unknown
        } else {
            Payer::Client(networks.network(client.ip))
        };
        let repositories = self.replica.repositories.clone();
        let chunks = self.blocking("upload-pack", move || {
            repositories.upload_pack(&repo, protocol, payer, body)
        });
        let chunks = chunks.await?.map_err(unreadable)?;
        Ok(reply(UPLOAD_PACK_RESULT, Body::stream(chunks)))
    }

    async fn refs(
        &self,
        repo: &RepoAddr,
    ) -> Result<std::sync::Arc<grip_git::RefSnapshot>, WebError> {
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
