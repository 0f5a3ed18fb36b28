//! The parts that watch GitHub.

use std::sync::Arc;

use grip_ingest::{Ingest, avatars::Avatars, webhook::Webhook};

/// All that is told of the pushes on GitHub, and the way in for what GitHub tells by itself.
///
/// Below `/api/v1/github/`, for anybody: `events`, `users/<login or id>`, `repos/<owner>/<name>`
/// and `repos/<id>`, `avatars/<id of a user>`, `stats`, `gaps` and `status`. What is not public on
/// GitHub is shown to the operator alone, who shows the admin token from this machine and may also
/// order: `POST retention` (counts only, unless `dry_run=false`), `POST reextract`, and
/// `POST gaps/close?from=…&to=…&by=…` (moments by RFC 3339 or in milliseconds). GitHub itself
/// delivers to `POST /webhooks/github`.
#[derive(Clone)]
pub struct Watch {
    pub ingest: Arc<Ingest>,
    /// None where no secret is set: then nothing is taken in from webhooks.
    pub webhook: Option<Webhook>,
    /// None where no pictures are kept.
    pub avatars: Option<Arc<Avatars>>,
}
