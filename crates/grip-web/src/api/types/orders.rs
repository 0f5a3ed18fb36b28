//! Answers to orders of the operator, and small responses.

use std::collections::BTreeMap;

use grip_index::RepoFacts;
use grip_ingest::StoredEvent;
use grip_types::Identifier;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// Defines responses that are written here and read by other programs.
macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, JsonSchema, Serialize)]
        pub(crate) struct $name {
            $($(#[$of_field])* pub(crate) $field: $type,)*
        }
    )*};
}

answers! {
    /// The form of every failure.
    ErrorAnswer {
        error: ErrorFacts,
    }

    /// Why a request failed.
    ErrorFacts {
        /// A word that does not change, such as `not_found`.
        code: String,
        /// A sentence for a person.
        message: String,
        /// When it may be tried again.
        retry_after_seconds: Option<u64>,
        /// The same as in the log of the node.
        request_id: String,
    }

    /// `GET /readyz`
    ReadyAnswer {
        ready: bool,
        /// What it cannot work without, part by part.
        missing: BTreeMap<String, String>,
        /// What works, but not as it was meant to.
        degraded: BTreeMap<String, String>,
    }

    /// `GET /version`
    VersionFacts {
        name: String,
        version: String,
        commit: Option<String>,
    }

    /// `GET /api/v1/config`
    ServiceConfig {
        options: Vec<OptionFacts>,
        warnings: Vec<String>,
    }

    /// One setting of the running node.
    OptionFacts {
        key: String,
        /// As it is written; secrets are masked.
        value: Option<String>,
        /// Where the value comes from.
        source: Value,
        has_effect: bool,
        /// Taken over by SIGHUP.
        live: bool,
    }

    /// `GET /api/v1/tasks`
    TaskList {
        running: usize,
        tasks: Vec<TaskFacts>,
    }

    /// One kind of task of one owner.
    TaskFacts {
        /// Its owner, named from the outermost group inwards.
        group: String,
        kind: &'static str,
        /// `critical`, `request` or `background`.
        criticality: Option<&'static str>,
        what: Option<&'static str>,
        running: usize,
        started_total: u64,
        canceled_total: u64,
        aborted_total: u64,
        panicked_total: u64,
    }

    /// `POST /api/v1/index/forget`
    SourceForgotten {
        source: String,
        /// `hide` or `remove`.
        how: &'static str,
    }

    /// `POST /api/v1/sync/<identifier>/now`
    SearchBroughtForward {
        identifier: Identifier,
        brought_forward: bool,
    }

    /// `POST /api/v1/purgatory/<event>/retry`
    EventBroughtForward {
        event: String,
        brought_forward: bool,
    }

    /// `DELETE /api/v1/purgatory/<event>`
    EventDropped {
        event: String,
        dropped: bool,
    }

    /// `POST /api/v1/queue/<kind>/<key>/retry`
    JobDueNow {
        kind: String,
        key: String,
        due_now: bool,
    }

    /// `DELETE /api/v1/queue/<kind>/<key>`
    JobDropped {
        kind: String,
        key: String,
        dropped: bool,
    }

    /// `POST /api/v1/index/now`
    IndexDueNow {
        name: String,
        /// `source` or `repository`.
        what: &'static str,
        kind: String,
        due_now: bool,
    }

    /// `GET /api/v1/index/repos`
    IndexedRepos {
        repos: Vec<RepoFacts>,
        /// The value of `after` for those that follow; none on the last page.
        next: Option<String>,
    }

    /// `POST /api/v1/backup/end`
    BackupEnded {
        removed: bool,
    }

    /// `POST /api/v1/holding/<npub>/<identifier>/restore`
    HoldingRestored {
        /// Events that are back.
        restored: usize,
    }

    /// `DELETE /api/v1/holding/<npub>/<identifier>`
    HoldingPurged {
        events: u64,
        archives: usize,
    }

    /// `POST /api/v1/blocks/add`, `POST /api/v1/blocks/remove`
    BlockReport {
        subject: String,
        blocked: bool,
        /// It was not blocked before.
        #[serde(skip_serializing_if = "Option::is_none")]
        is_new: Option<bool>,
    }

    /// `GET /api/v1/github/events`
    PushPage {
        events: Vec<PushFacts>,
        /// The value of `cursor` for the pushes that follow; none on the last page.
        next: Option<String>,
    }

    /// A push on GitHub.
    PushFacts {
        #[serde(flatten)]
        push: StoredEvent,
        /// The JSON of GitHub, where it was asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        raw: Option<Value>,
    }

    /// `POST /api/v1/github/gaps/close`
    GapsClosed {
        closed: u64,
    }

    /// `POST /api/v1/github/reextract`
    ReextractionBegun {
        began: bool,
    }
}
