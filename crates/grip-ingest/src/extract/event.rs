//! Events: pushes in full, of others what they are.

use grip_github::RepoName;
use grip_types::{Oid, RefName};
use serde_json::Value;

use super::{Cell, Malformed, object, raw};
use crate::fields::{DELIVERY, EVENT, Field};

/// Longest name of a person or a repository.
const MAX_NAME: usize = 256;
/// Longest URL of a repository.
const MAX_URL: usize = 2_048;
/// Longest id of a webhook's delivery.
const MAX_DELIVERY: usize = 64;

/// What the id of a push begins with that a webhook brought.
const DELIVERED: &str = "delivery ";

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Push(Box<Push>),
    /// A tag was made or removed.
    Tag(TagEvent),
    /// Anything else.
    Other {
        id: String,
        /// One of those that GitHub names in its documentation, or `unknown`.
        kind: &'static str,
        at_ms: Option<i64>,
    },
}

/// Tells that a tag was made or removed; lists show no push for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagEvent {
    pub id: String,
    /// `CreateEvent` or `DeleteEvent`.
    pub kind: &'static str,
    pub at_ms: Option<i64>,
    /// `owner/name`
    pub repository_name: String,
    /// Whether it was said that not everybody may see the repository.
    pub is_private: bool,
}

/// A push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    pub id: String,
    pub actor: Actor,
    pub actor_id: Option<i64>,
    pub actor_login: Option<String>,
    pub repository_id: i64,
    /// `owner/name`, as it was then.
    pub repository_name: Option<String>,
    /// Where the repository is cloned from, as far as a webhook said.
    pub clone_url: Option<String>,
    /// Whether it was said that not everybody may see the repository.
    pub is_private: bool,
    pub push_id: Option<i64>,
    pub git_ref: String,
    /// The commit after the push; zeros where the ref was removed.
    pub head: String,
    /// The commit before the push; zeros where the ref is new.
    pub before: Option<String>,
    /// When it happened, in milliseconds since 1970.
    pub at_ms: Option<i64>,
    /// As GitHub wrote it.
    pub raw: String,
}

impl Push {
    /// A push from what is kept of it.
    pub(crate) fn reread(id: &str, raw: &str) -> Result<Self, Malformed> {
        match id.strip_prefix(DELIVERED) {
            Some(id) => delivery(id, raw.as_bytes()),
            None => match event(raw.as_bytes())? {
                Event::Push(push) => Ok(*push),
                Event::Tag(_) | Event::Other { .. } => Err(unfit("type", "PushEvent")),
            },
        }
    }

    /// The webhook's id of the delivery, if one brought it.
    pub fn delivery_id(&self) -> Option<&str> {
        self.id.strip_prefix(DELIVERED)
    }

    /// What goes into its columns, in the order of the fields.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let cell = |field: &Field| match field.column {
            "actor_id" => Cell::Int(self.actor_id),
            "actor_login" => Cell::Text(self.actor_login.clone()),
            "repository_id" => Cell::Int(Some(self.repository_id)),
            "repository_name" => Cell::Text(self.repository_name.clone()),
            "push_id" => Cell::Int(self.push_id),
            "ref" => Cell::Text(Some(self.git_ref.clone())),
            "head" => Cell::Text(Some(self.head.clone())),
            "before" => Cell::Text(self.before.clone()),
            "github_created_at" => Cell::Int(self.at_ms),
            other => unreachable!("because {other} is no column of a push"),
        };
        EVENT.iter().map(cell).collect()
    }
}

/// Who has pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// A person, with the name in the URL.
    User(String),
    /// An app, which has no profile worth asking for.
    Bot,
    /// An organisation or anything else.
    Unknown,
    Missing,
}

impl Actor {
    /// Reads `https://HOST/users/NAME`; on a GitHub Enterprise, the API is below `/api/v3`.
    fn of(url: Option<&str>) -> Self {
        let Some(url) = url else {
            return Self::Missing;
        };
        match name(url) {
            None => Self::Unknown,
            Some(name) if is_bot(name) => Self::Bot,
            Some(name) => Self::User(name.to_owned()),
        }
    }
}

fn name(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("https://");
    let rest = rest.or_else(|| url.strip_prefix("http://"))?;
    let (host, path) = rest.split_once('/')?;
    let path = path.strip_prefix("api/v3/").unwrap_or(path);
    let name = path.strip_prefix("users/")?;
    (!host.is_empty() && !name.is_empty() && !name.contains('/')).then_some(name)
}

fn is_bot(name: &str) -> bool {
    name.ends_with("[bot]") || name.to_ascii_lowercase().ends_with("%5bbot%5d")
}

/// The types of events that GitHub names.
const TYPES: &str = "CommitCommentEvent CreateEvent DeleteEvent DiscussionEvent ForkEvent GollumEvent \
    IssueCommentEvent IssuesEvent MemberEvent PublicEvent PullRequestEvent \
    PullRequestReviewCommentEvent PullRequestReviewEvent PullRequestReviewThreadEvent PushEvent \
    ReleaseEvent SponsorshipEvent WatchEvent";

/// Reads an event of a list or an archive.
pub fn event(text: &[u8]) -> Result<Event, Malformed> {
    let value = object(text)?;
    let id = event_id(&value)?;
    let kind = match value.get("type") {
        Some(Value::String(kind)) => kind,
        Some(_) => return Err(unfit("type", "a text")),
        None => return Err(Malformed::Missing { what: "type" }),
    };
    if kind != "PushEvent" {
        let known = TYPES.split(' ').find(|known| known == kind);
        let (kind, at_ms) = (known.unwrap_or("unknown"), moment(&value));
        return Ok(match tagged(&value, kind) {
            Some(repository_name) => Event::Tag(TagEvent {
                id,
                kind,
                at_ms,
                repository_name,
                is_private: is_private(&value),
            }),
            None => Event::Other { id, kind, at_ms },
        });
    }
    // An actor may be missing; one that is there has an id.
    let has_actor = value.get("actor").is_some_and(|actor| !actor.is_null());
    if has_actor && value.pointer("/actor/id").is_none_or(Value::is_null) {
        return Err(Malformed::Missing { what: "actor_id" });
    }
    let actor = Actor::of(value.pointer("/actor/url").and_then(Value::as_str));
    let is_private = is_private(&value);
    let push = push(id, actor, &value, EVENT, text)?;
    Ok(Event::Push(Box::new(Push { is_private, ..push })))
}

fn is_private(value: &Value) -> bool {
    value.get("public").and_then(Value::as_bool) == Some(false)
}

/// The repository whose tags an event of this kind changes.
fn tagged(value: &Value, kind: &str) -> Option<String> {
    let is_about_tag = value.pointer("/payload/ref_type").and_then(Value::as_str) == Some("tag");
    if !is_about_tag || !matches!(kind, "CreateEvent" | "DeleteEvent") {
        return None;
    }
    let name = value.pointer("/repo/name").and_then(Value::as_str)?;
    RepoName::parse(name).ok().map(|name| name.to_string())
}

/// Reads the body of a webhook's delivery about a push.
pub fn delivery(id: &str, text: &[u8]) -> Result<Push, Malformed> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !(1..=MAX_DELIVERY).contains(&id.len()) || !id.bytes().all(is_plain) {
        return Err(unfit("the delivery's id", "letters, digits and dashes"));
    }
    let value = object(text)?;
    let actor = Actor::of(value.pointer("/sender/url").and_then(Value::as_str));
    let clone_url = value.pointer("/repository/clone_url");
    let clone_url = clone_url.and_then(Value::as_str);
    let clone_url = clone_url.filter(|url| url.len() <= MAX_URL);
    let is_private = value
        .pointer("/repository/private")
        .and_then(Value::as_bool);
    let push = push(format!("{DELIVERED}{id}"), actor, &value, DELIVERY, text)?;
    Ok(Push {
        clone_url: clone_url.map(str::to_owned),
        is_private: is_private == Some(true),
        ..push
    })
}

/// GitHub writes the ids of events as text, because they are too large for some.
fn event_id(value: &Value) -> Result<String, Malformed> {
    let found = value.get("id").filter(|id| !id.is_null());
    let id = found.ok_or(Malformed::Missing { what: "id" })?.as_str();
    let is_number = |id: &&str| {
        let is_plain = id.bytes().all(|byte| byte.is_ascii_digit());
        is_plain && (1..=20).contains(&id.len()) && !id.starts_with('0')
    };
    let id = id.filter(is_number).map(str::to_owned);
    id.ok_or_else(|| unfit("id", "a positive integer in a text"))
}

fn moment(value: &Value) -> Option<i64> {
    let field = EVENT.iter().find(|field| field.pointer == "/created_at")?;
    Cell::read(value, field).ok()?.int()
}

fn push(
    id: String,
    actor: Actor,
    value: &Value,
    fields: &'static [Field],
    text: &[u8],
) -> Result<Push, Malformed> {
    let field = |column: &'static str| {
        let field = fields.iter().find(|field| field.column == column);
        field.expect("because both lists have the same columns")
    };
    let cell = |column| Cell::read(value, field(column));
    let int = |column| cell(column).map(Cell::int);
    let text_of = |column| cell(column).map(Cell::text);
    let name = |column| text_of(column).and_then(|name| short(column, name));
    let must = |column, found: Option<String>| found.ok_or(Malformed::Missing { what: column });
    let git_ref = must("ref", text_of("ref")?)?;
    // As it was said, not as it can be kept: what would have to be changed is no name.
    let said = value.pointer(field("ref").pointer).and_then(Value::as_str);
    RefName::parse(said.unwrap_or_default())
        .map_err(|_| unfit("ref", "the name of a ref, such as refs/heads/main"))?;
    let repository = int("repository_id")?;
    Ok(Push {
        id,
        actor,
        actor_id: int("actor_id")?,
        actor_login: name("actor_login")?,
        repository_id: repository.expect("because an id is there, or an error"),
        repository_name: name("repository_name")?,
        clone_url: None,
        is_private: false,
        push_id: int("push_id")?,
        git_ref,
        head: commit("head", must("head", text_of("head")?)?)?,
        before: text_of("before")?
            .map(|before| commit("before", before))
            .transpose()?,
        at_ms: int("github_created_at")?,
        raw: raw(text)?,
    })
}

fn short(what: &'static str, name: Option<String>) -> Result<Option<String>, Malformed> {
    match name {
        Some(name) if name.len() > MAX_NAME => Err(Malformed::TooLong {
            what,
            most: MAX_NAME,
        }),
        name => Ok(name),
    }
}

fn commit(what: &'static str, hex: String) -> Result<String, Malformed> {
    match Oid::from_hex(hex.as_bytes()) {
        Ok(_) => Ok(hex),
        Err(_) => Err(unfit(what, "the id of a commit")),
    }
}

fn unfit(what: &'static str, expected: &'static str) -> Malformed {
    Malformed::Unfit { what, expected }
}
