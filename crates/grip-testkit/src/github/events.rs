//! Events and users: lists of events that move while they are read, people,
//! and repositories described word for word.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    FakeGitHub,
    listing::PageQuery,
    repositories::Repositories,
    routes::{self, Call, Made},
};

/// Events that a list shows at most, as GitHub keeps.
const KEPT: usize = 300;
const FIRST_ID: u64 = 50_000_000_000;
/// The first event's moment.
const FIRST_MOMENT: i64 = 1_760_000_000;

/// All that happened, and what is known about people.
#[derive(Debug, Default)]
pub(super) struct Activity {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// The oldest first.
    events: VecDeque<Value>,
    made: u64,
    /// What happens after each look at a list that is still to come.
    arriving: VecDeque<Vec<Value>>,
    poll_interval: u64,
    /// By login in lower case.
    users: BTreeMap<String, Value>,
    /// By name in lower case.
    described: BTreeMap<String, Value>,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            events: VecDeque::new(),
            made: 0,
            arriving: VecDeque::new(),
            poll_interval: 60,
            users: BTreeMap::new(),
            described: BTreeMap::new(),
        }
    }
}

/// What happens, and who is there. Events are any JSON: whose lists they are in is read from
/// `actor.login`, `org.login` and `repo.name`, the owner's part of which counts as an `org` too.
impl FakeGitHub {
    /// Something happens.
    pub fn emit(&self, event: Value) {
        self.shared
            .repositories()
            .activity
            .inner()
            .events
            .push_back(event);
    }

    /// A push event as GitHub writes them, with ids and moments that grow; nothing happens yet.
    pub fn push_event(&self, actor: &str, full_name: &str) -> Value {
        let repo = self.shared.repositories().id(full_name);
        let repo = repo.unwrap_or_else(|| self.add(full_name));
        let repositories = self.shared.repositories();
        let mut inner = repositories.activity.inner();
        inner.made += 1;
        let count = inner.made;
        let moment = i64::try_from(count).unwrap_or_default() + FIRST_MOMENT;
        let moment = Timestamp::from_second(moment).map(|at| at.to_string());
        let known = inner.users.get(&actor.to_lowercase());
        let actor_id = known.and_then(|user| user["id"].as_u64()).unwrap_or(1);
        json!({
            "id": (FIRST_ID + count).to_string(),
            "type": "PushEvent",
            "actor": {
                "id": actor_id,
                "login": actor,
                "display_login": actor,
                "gravatar_id": "",
                "url": format!("https://api.github.com/users/{actor}"),
                "avatar_url": format!("https://avatars.githubusercontent.com/u/{actor_id}?"),
            },
            "repo": {
                "id": repo,
                "name": full_name,
                "url": format!("https://api.github.com/repos/{full_name}"),
            },
            "payload": {
                "repository_id": repo,
                "push_id": 30_000_000_000_u64 + count,
                "ref": "refs/heads/main",
                "head": format!("{count:040x}"),
                "before": format!("{:040x}", count - 1),
            },
            "public": true,
            "created_at": moment.unwrap_or_default(),
        })
    }

    /// Somebody pushes; returns the event.
    pub fn push(&self, actor: &str, full_name: &str) -> Value {
        let event = self.push_event(actor, full_name);
        self.emit(event.clone());
        event
    }

    /// After each look at a page of events from now on, one of these happens.
    pub fn emit_between_pages(&self, batches: impl IntoIterator<Item = Vec<Value>>) {
        // Before the lock: making them may need it too.
        let batches: Vec<_> = batches.into_iter().collect();
        let repositories = self.shared.repositories();
        repositories.activity.inner().arriving.extend(batches);
    }

    /// The ids of the events that lists can show, the latest first; none for those without one.
    pub fn event_ids(&self) -> Vec<Option<String>> {
        let repositories = self.shared.repositories();
        let inner = repositories.activity.inner();
        let id = |event: &Value| event["id"].as_str().map(str::to_owned);
        inner.events.iter().rev().map(id).collect()
    }

    /// What it wants between two looks, in seconds: 60.
    pub fn set_poll_interval(&self, seconds: u64) {
        self.shared.repositories().activity.inner().poll_interval = seconds;
    }

    /// Adds or replaces a person, in the words of `/users/…`; `login` and `id` have to be there.
    pub fn set_user(&self, user: Value) {
        let login = user["login"].as_str().unwrap_or_default().to_lowercase();
        self.shared
            .repositories()
            .activity
            .inner()
            .users
            .insert(login, user);
    }

    /// Adds a person with a few words and returns its id.
    pub fn add_user(&self, login: &str) -> u64 {
        let id = {
            let repositories = self.shared.repositories();
            1_000 + repositories.activity.inner().users.len() as u64
        };
        self.set_user(json!({
            "id": id,
            "login": login,
            "node_id": format!("U_{id}"),
            "type": "User",
            "site_admin": false,
            "name": login,
            "public_repos": 1,
            "created_at": "2011-01-25T18:44:36Z",
            "updated_at": "2025-01-25T18:44:36Z",
        }));
        id
    }

    /// Says this about a repository, word for word, instead of what is made up about it.
    pub fn describe(&self, full_name: &str, words: Value) {
        let repositories = self.shared.repositories();
        let mut inner = repositories.activity.inner();
        inner.described.insert(full_name.to_lowercase(), words);
    }
}

impl Activity {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What answers about events say beside the events.
    pub(super) fn headers(&self, path: &str) -> Option<(String, String)> {
        let is_events = path.ends_with("/events") || path.ends_with("/events/public");
        let seconds = self.inner().poll_interval.to_string();
        is_events.then(|| ("x-poll-interval".to_owned(), seconds))
    }
}

/// The answer, if it is about events, people or described repositories.
pub(super) fn answer(
    repositories: &Repositories,
    call: &Call<'_>,
    asked: &PageQuery,
) -> Option<Made> {
    let parts: Vec<_> = call.path.trim_matches('/').split('/').collect();
    let mut inner = repositories.activity.inner();
    let is = |found: &Value, name: &str| {
        let found = found.as_str().unwrap_or_default();
        found.eq_ignore_ascii_case(name)
    };
    let owner = |event: &Value| {
        let name = event["repo"]["name"].as_str().unwrap_or_default();
        Value::from(name.split('/').next().unwrap_or_default())
    };
    match parts.as_slice() {
        ["events"] => Some(inner.look(call, asked, |_| true)),
        ["orgs", org, "events"] => Some(inner.look(call, asked, |event| {
            is(&event["org"]["login"], org) || is(&owner(event), org)
        })),
        ["users", login, "events"] | ["users", login, "events", "public"] => {
            Some(inner.look(call, asked, |event| is(&event["actor"]["login"], login)))
        }
        ["repos", owner, name, "events"] => {
            let full_name = format!("{owner}/{name}");
            Some(inner.look(call, asked, |event| is(&event["repo"]["name"], &full_name)))
        }
        ["users", login] => Some(inner.users.get(&login.to_lowercase()).map_or_else(
            || Made::Refused(404, "Not Found".to_owned()),
            |user| Made::Json(user.clone()),
        )),
        ["repos", owner, name] => {
            let found = inner
                .described
                .get(&format!("{owner}/{name}").to_lowercase());
            found.map(|words| Made::Json(words.clone()))
        }
        ["repositories", id] => {
            let id: u64 = id.parse().ok()?;
            let mut all = inner.described.values();
            let found = all.find(|words| words["id"].as_u64() == Some(id));
            found.map(|words| Made::Json(words.clone()))
        }
        _ => None,
    }
}

impl Inner {
    /// A page of those that are wanted; then whatever is to happen happens.
    fn look(
        &mut self,
        call: &Call<'_>,
        asked: &PageQuery,
        wanted: impl Fn(&Value) -> bool,
    ) -> Made {
        let all = self.events.iter().rev().filter(|event| wanted(event));
        let (part, more) = asked.part(all.take(KEPT));
        let items = part.into_iter().cloned().collect();
        self.events
            .extend(self.arriving.pop_front().unwrap_or_default());
        Made::Page(items, more.then(|| routes::next_page(call.query, asked)))
    }
}
