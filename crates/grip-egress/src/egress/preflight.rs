//! The document that is read before a host is asked.

use std::time::Duration;

use grip_limits::{Advice, Permit, Verdict};
use tokio::{
    io::AsyncReadExt as _,
    time::{Instant, timeout_at},
};
use url::Url;

use super::{Egress, Hop, refusal};
use crate::{
    body::{Body, Limits},
    error::EgressError,
    options::{Request, RequestPolicy},
    preflight::{DocumentResponse, Preflight},
};

/// How long a document may take (G02-42).
const DOCUMENT_TIME: Duration = Duration::from_secs(3);

impl Egress {
    /// Finds out whether `url` may be asked. `permit` pays for the document, if one is read, and is
    /// good for one request again when it comes back.
    pub(super) async fn preflight(
        &self,
        preflight: &dyn Preflight,
        url: &Url,
        mut permit: Permit,
        deadline: Instant,
    ) -> Result<Permit, EgressError> {
        if let Some(document) = preflight.document(url) {
            permit = self
                .read_document(preflight, document, permit, deadline)
                .await?;
        }
        match preflight.check(url) {
            Ok(()) => Ok(permit),
            Err(forbidden) => {
                permit.unused();
                Err(forbidden.into())
            }
        }
    }

    async fn read_document(
        &self,
        preflight: &dyn Preflight,
        document: Request,
        permit: Permit,
        deadline: Instant,
    ) -> Result<Permit, EgressError> {
        let permit = self.check_first(&RequestPolicy::default(), &document.url, permit)?;
        let (domain, lane) = (permit.domain().clone(), permit.lane());
        let until = deadline.min(Instant::now() + DOCUMENT_TIME);
        let reading = self.document(&document, permit, deadline);
        let Ok(read) = timeout_at(until, reading).await else {
            // The start stays counted, and says nothing about the health of the host.
            preflight.note(&document.url, None);
            return Ok(self.inner.throttle.acquire(&domain, lane).await?);
        };
        let Document {
            response,
            mut permit,
            verdict,
            advice,
        } = read?;
        preflight.note(&document.url, Some(&response));
        if advice.is_some() {
            permit.finish(verdict, advice);
            return Ok(self.inner.throttle.acquire(&domain, lane).await?);
        }
        permit.again().await?;
        Ok(permit)
    }

    /// Reads a document. A host that cannot be reached, or wants to be left alone, is not asked for
    /// more.
    async fn document(
        &self,
        document: &Request,
        permit: Permit,
        deadline: Instant,
    ) -> Result<Document, EgressError> {
        let policy = RequestPolicy::default();
        let hop = Hop::first(&policy, document);
        let head = self.ask(&policy, document, &hop, permit, deadline).await?;
        let (reading, advice) = head.read(b"");
        let (status, headers) = (head.response.status(), head.response.headers().clone());
        let is_success = status.is_success();
        if !is_success && advice.is_some() {
            let refused = refusal::read(head, hop.url, DOCUMENT_TIME, deadline, false).await;
            return Err(refused.expect_err("only a success is no error"));
        }
        let domain = head.permit.domain().clone();
        let mut text = None;
        if is_success {
            let limits = Limits {
                max_bytes: document.max_bytes,
                idle: DOCUMENT_TIME,
                deadline,
            };
            let mut body = Body::new(head.response.into(), domain, limits, None);
            let mut bytes = Vec::new();
            text = body.read_to_end(&mut bytes).await.ok().map(|_| bytes);
        }
        let response = DocumentResponse {
            status,
            headers,
            text,
        };
        Ok(Document {
            response,
            permit: head.permit,
            verdict: reading.verdict,
            advice,
        })
    }
}

/// What came of asking for a document.
struct Document {
    response: DocumentResponse,
    permit: Permit,
    verdict: Verdict,
    advice: Option<Advice>,
}
