//! The operations of the JSON API: what each takes and answers, beside the table of routes.
//!
//! The reference (docs/api.md) and `/api/v1/openapi.json` are made from this table, the route table
//! and the types of the answers; a test holds it to exactly the rows of the route table.

use grip_grasp::{ListedMoves, RepositoryFacts};
use grip_index::Verified;
use grip_queue::JobFacts;
use grip_resolve::{CommandResult, Ranked};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

use super::types::{
    BackupEnded, BlockList, BlockReport, CheckPage, CompactionReport, EventBroughtForward,
    EventDropped, Explained, FailureCauses, FrozenState, Gaps, GapsClosed, HeldBackList,
    HoldingPurged, HoldingRestored, IndexDueNow, IndexStatus, IndexedRepo, IndexedRepos,
    JobDropped, JobDueNow, Jobs, NodeStatus, PushPage, ReadyAnswer, ReextractionBegun,
    RemovalReport, RepositoryList, ResolvedManifest, RestoredRepository, Retention, Revived,
    SearchBroughtForward, ServiceConfig, SourceForgotten, SumDbView, SyncStatus, TaskList,
    VersionFacts, WaitingEvents,
};
use crate::index_feed::{Line, Version};

/// One method of one path.
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    /// As in the table of routes.
    pub(crate) path: &'static str,
    pub(crate) summary: &'static str,
    /// Query parameters, each with what it means.
    pub(crate) parameters: &'static [(&'static str, &'static str)],
    /// Status of success.
    pub(crate) status: u16,
    /// A second status with the same kind of answer.
    pub(crate) also: Option<u16>,
    pub(crate) answer: Answer,
    /// Its handler asks for the token itself.
    pub(crate) is_for_operator: bool,
    /// The body that it reads, in words.
    pub(crate) body: Option<&'static str>,
}

/// What a successful operation answers with.
#[derive(Clone, Copy)]
pub(crate) enum Answer {
    Json(fn(&mut SchemaGenerator) -> Schema),
    /// One JSON value a line.
    Lines(fn(&mut SchemaGenerator) -> Schema),
    /// Bytes of a media type.
    Other(&'static str),
    /// Never successful: it exists to say what is not there.
    Nothing,
}

/// An object whose keys are those of GitHub or of a part of the node.
type Open = Map<String, Value>;

type Parameters = &'static [(&'static str, &'static str)];

const NONE: Parameters = &[];
const LIMIT: (&str, &str) = ("limit", "most entries; 100 without it, 1000 at most");
const AFTER: (&str, &str) = ("after", "`next` of the page before");
const SUBJECT: (&str, &str) = ("subject", "`npub`, `npub/identifier` or `identifier`");
const RAW: (&str, &str) = ("raw", "`true` adds the JSON of GitHub");
const REMOVAL: Parameters = &[
    ("repository", "`npub/identifier`"),
    ("event", "64 hex digits"),
    ("author", "an npub"),
    (
        "execute",
        "`true` removes; without it the answer says what would go",
    ),
];
const FRESH: (&str, &str) = (
    "fresh",
    "`true` asks the network although the cache has an answer",
);

const fn json<T: JsonSchema>(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    parameters: Parameters,
) -> Operation {
    let answer = Answer::Json(SchemaGenerator::subschema_for::<T>);
    operation(method, path, summary, parameters, answer)
}

const fn lines<T: JsonSchema>(
    path: &'static str,
    summary: &'static str,
    parameters: Parameters,
) -> Operation {
    let answer = Answer::Lines(SchemaGenerator::subschema_for::<T>);
    operation("GET", path, summary, parameters, answer)
}

const fn operation(
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    parameters: Parameters,
    answer: Answer,
) -> Operation {
    Operation {
        method,
        path,
        summary,
        parameters,
        status: 200,
        also: None,
        answer,
        is_for_operator: false,
        body: None,
    }
}

impl Operation {
    /// The work goes on after the answer.
    const fn accepted(mut self) -> Self {
        self.status = 202;
        self
    }

    const fn also(mut self, status: u16) -> Self {
        self.also = Some(status);
        self
    }

    const fn for_operator(mut self) -> Self {
        self.is_for_operator = true;
        self
    }

    const fn with_body(mut self, body: &'static str) -> Self {
        self.body = Some(body);
        self
    }
}

const KEY: &str = "`{\"key\": \"<npub>/<identifier>\"}`, or `b3:…` in place of the name";

// A table: one operation a line.
#[rustfmt::skip]
pub(crate) static OPERATIONS: &[Operation] = &[
    json::<ReadyAnswer>("GET", "/readyz", "Whether requests are served, and what is missing; 503 if something is", NONE).also(503),
    json::<VersionFacts>("GET", "/version", "Version and commit of the node", NONE),
    json::<ResolvedManifest>("GET", "/resolve/{key...}", "The manifest of a repository, by `npub/identifier` or by digest", &[FRESH, ("raw", "`true`: the bytes of the manifest alone")]),
    json::<Ranked>("GET", "/providers/{key...}", "Clone URLs of a repository, the best first", &[("limit", "most URLs"), ("region", "preferred region"), FRESH]),
    json::<CommandResult>("POST", "/admin/pin", "Keep a manifest in the cache", NONE).with_body(KEY),
    json::<CommandResult>("POST", "/admin/unpin", "No longer keep a manifest", NONE).with_body(KEY),
    json::<CommandResult>("POST", "/admin/reindex", "Publish all manifests of this node again", NONE).accepted().with_body("empty"),
    json::<Open>("GET", "/api/v1/resolve", "The resolver: peers, cache, pins, counters; recent orders for the operator", &[("limit", "most orders; 20 without it, 100 at most")]),
    lines::<Version>("/index", "Module versions in the order in which they were first seen", &[("since", "a moment such as 2019-04-10T19:08:52.997264Z"), ("limit", "most lines; 2000 without it and at most"), ("clock", "`seen` or `created`"), ("path", "a module path, or how it begins")]),
    lines::<Line>("/index/changes", "What happened to versions, in the order in which it happened", &[("cursor", "`Cursor` of the last line that was read"), ("limit", "most lines; 2000 without it and at most")]),
    json::<Open>("GET", "/api/v1/openapi.json", "This description (OpenAPI 3.1)", NONE),
    json::<NodeStatus>("GET", "/api/v1/status", "How the node is: what is served, waits and fails, and how full it is", NONE),
    json::<ServiceConfig>("GET", "/api/v1/config", "Every setting with its value and source; secrets are masked", NONE),
    json::<Explained>("GET", "/api/v1/explain/{subject...}", "Why an event or a repository is served, held or refused; 404 if nothing is known of it", NONE).also(404),
    json::<CheckPage>("POST", "/api/v1/check", "Audit of relay against git, page by page", &[("full", "`true` reads every object"), ("repair", "`true` settles what is found"), AFTER]),
    json::<RestoredRepository>("POST", "/api/v1/check/restore", "Put back what the objects of an identifier lack from a pack of a backup", &[("identifier", "whose objects they are")]).with_body("a pack that is complete in itself"),
    json::<ListedMoves>("GET", "/api/v1/archive/{npub}/{identifier}/log", "Former tips of the refs of an archived repository", &[LIMIT, ("skip", "entries to leave out")]),
    json::<FrozenState>("POST", "/api/v1/backup", "Lay the state of this moment out for a backup; 202 while it goes on: ask again", NONE).also(202),
    json::<BackupEnded>("POST", "/api/v1/backup/end", "Remove what was laid out for a backup", NONE),
    json::<TaskList>("GET", "/api/v1/tasks", "The tasks of the process", NONE),
    json::<SyncStatus>("GET", "/api/v1/sync", "What is fetched from other hosts and relays, and what waits for it", &[LIMIT]),
    json::<SearchBroughtForward>("POST", "/api/v1/sync/{identifier}/now", "Look for the data of an identifier at once", NONE).accepted(),
    json::<WaitingEvents>("GET", "/api/v1/purgatory", "Events that wait for git data", &[LIMIT]),
    json::<EventDropped>("DELETE", "/api/v1/purgatory/{event}", "Drop an event that waits", NONE),
    json::<EventBroughtForward>("POST", "/api/v1/purgatory/{event}/retry", "Look for the data of an event at once", NONE).accepted(),
    json::<RemovalReport>("POST", "/api/v1/events/remove", "Remove an event, or all of an author", REMOVAL),
    json::<HeldBackList>("POST", "/api/v1/holding", "What was taken out of service and is kept", &[("limit", "most entries, up to 1000; all without it")]),
    json::<HoldingRestored>("POST", "/api/v1/holding/{npub}/{identifier}/restore", "Bring back what is kept of a repository", NONE),
    json::<HoldingPurged>("DELETE", "/api/v1/holding/{npub}/{identifier}", "Destroy what is kept of a repository", NONE),
    json::<CompactionReport>("POST", "/api/v1/events/compact", "Compact the event store; 202 if it takes longer", NONE).also(202),
    json::<RepositoryList>("GET", "/api/v1/repos", "Hosted repositories by name", &[LIMIT]),
    json::<RepositoryList>("GET", "/api/v1/repos/sizes", "Hosted repositories, the largest first", &[LIMIT]),
    json::<RemovalReport>("POST", "/api/v1/repos/remove", "Remove a repository", REMOVAL),
    json::<RepositoryFacts>("GET", "/api/v1/repos/{name...}", "One hosted repository, by `npub/identifier`", NONE),
    json::<BlockList>("GET", "/api/v1/blocks", "What is kept out of relay and git", NONE),
    json::<BlockReport>("POST", "/api/v1/blocks/add", "Keep something out of relay and git", &[SUBJECT, ("reason", "a note of at most 500 bytes")]),
    json::<BlockReport>("POST", "/api/v1/blocks/remove", "Lift a block", &[SUBJECT]),
    json::<Jobs>("GET", "/api/v1/queue", "Jobs, page by page, with the totals of each kind", &[("kind", "of this kind alone"), ("state", "`due`, `waiting`, `leased` or `dead`"), AFTER, LIMIT]),
    json::<FailureCauses>("GET", "/api/v1/queue/causes", "Failed jobs, grouped by kind and cause", &[("kind", "of this kind alone")]),
    json::<Revived>("POST", "/api/v1/queue/revive", "Make all jobs due now that failed for good, or for one cause", &[("kind", "of this kind alone"), ("cause", "for this reason alone")]).accepted(),
    json::<JobFacts>("GET", "/api/v1/queue/{kind}/{key}", "One job", NONE),
    json::<JobDropped>("DELETE", "/api/v1/queue/{kind}/{key}", "Drop a job", NONE).for_operator(),
    json::<JobDueNow>("POST", "/api/v1/queue/{kind}/{key}/retry", "Make a job due now", NONE).accepted(),
    json::<IndexStatus>("GET", "/api/v1/index", "The module index: sources and totals", NONE),
    json::<IndexDueNow>("POST", "/api/v1/index/now", "List a source or index a repository at once", &[("name", "such as `github.com/acme/tides`")]).accepted(),
    json::<SourceForgotten>("POST", "/api/v1/index/forget", "Take leave of a source that left the settings", &[("source", "such as `github.com/orgs/acme`"), ("how", "`remove` (without it) or `hide`")]).accepted(),
    json::<SumDbView>("GET", "/api/v1/index/sumdb", "The checksum database: its key, its size, tags that moved", &[("limit", "most tags; 100 without it, 200 at most")]),
    json::<Verified>("POST", "/api/v1/index/verify", "Verify 256 records of the checksum database", &[("page", "`next` of the page before; 0 without it")]),
    json::<IndexedRepos>("GET", "/api/v1/index/repos", "Indexed repositories, page by page", &[AFTER, LIMIT]),
    json::<IndexedRepo>("GET", "/api/v1/index/repos/{name...}", "One indexed repository, and why each tag is in the feed or not", &[AFTER, ("limit", "most tags; 200 at most")]),
    json::<PushPage>("GET", "/api/v1/github/events", "Pushes on GitHub by when they happened, the latest first", &[("repo", "number or `owner/name`"), ("actor", "number or login"), ("since", "none that happened before this moment, or these milliseconds since 1970"), ("cursor", "`next` of the page before"), ("limit", "most pushes; 100 without it, 500 at most"), RAW]),
    json::<Open>("GET", "/api/v1/github/users/{user}", "A person, by number or login; keys of GitHub", &[RAW]),
    json::<Open>("GET", "/api/v1/github/repos/{name...}", "A repository, by number or `owner/name`; keys of GitHub", &[RAW]),
    operation("GET", "/api/v1/github/avatars/{user}", "The picture of a person, by number", NONE, Answer::Other("image/*")),
    json::<grip_ingest::Stats>("GET", "/api/v1/github/stats", "How much is stored of GitHub", NONE),
    json::<grip_ingest::Status>("GET", "/api/v1/github/status", "How GitHub is watched: sources, budgets, work", NONE),
    json::<Gaps>("GET", "/api/v1/github/gaps", "Times of which pushes may be missing", &[("open", "`true`: only those not closed"), AFTER, ("limit", "most gaps; 100 without it, 500 at most")]),
    json::<GapsClosed>("POST", "/api/v1/github/gaps/close", "Declare gaps filled", &[("from", "a moment"), ("to", "a moment"), ("by", "a short name for the record")]),
    json::<Retention>("POST", "/api/v1/github/retention", "Delete what is older than it is kept", &[("dry_run", "`false` deletes; without it the answer says what would go")]),
    json::<ReextractionBegun>("POST", "/api/v1/github/reextract", "Extract all stored events again", NONE).accepted(),
    operation("GET", "/api/v1/github/{path...}", "Any other path: 404", NONE, Answer::Nothing),
];
