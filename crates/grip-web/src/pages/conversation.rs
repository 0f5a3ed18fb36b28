//! Issues, patches and pull requests of a repository, to be read.

use std::sync::Arc;

use askama::Template;
use grip_browse::{
    catalog::Catalog,
    conversation::{self, About, Status, Thread, Topic, TopicKind, What},
    highlight,
    markdown::{self, Nowhere},
};
use grip_nostr::{Event, EventId, PublicKey, first_value};
use grip_store::StoreError;
use grip_types::Oid;
use http::StatusCode;

use super::{
    Frame,
    browse::{
        CommitLine, GIT_BOUNDS, Header, Visit,
        commit::{FileChange, Form, Total, file_changes},
        log, not_inspected,
    },
    catalog::People,
    pager::Pager,
    time::{Moment, Now},
};
use crate::{
    error::WebError,
    query::{flag, page_number},
    request_context::{HttpResult, RequestContext},
};

/// Topics of one page.
const PER_PAGE: usize = 50;
/// Bytes of one conversation that are rendered; of the texts behind them the beginning is shown.
const MAX_RENDERED: usize = 512 << 10;
/// Bytes of each of those.
const MAX_BEGINNING: usize = 500;
/// Commits of a pull request that are listed.
const MAX_COMMITS: usize = 100;

struct TopicLine {
    subject: String,
    href: String,
    status: &'static str,
    class: &'static str,
    is_patch: bool,
    labels: Vec<String>,
    author: String,
    when: Moment,
}

#[derive(Template)]
#[template(path = "topics.html")]
struct TopicsPage {
    frame: Frame,
    header: Header,
    title: &'static str,
    here: String,
    /// Where one can be written.
    write: String,
    is_all: bool,
    open: usize,
    all: usize,
    lines: Vec<TopicLine>,
    pager: Pager,
}

struct EntryView {
    id: String,
    author: String,
    author_href: String,
    is_maintainer: bool,
    what: &'static str,
    when: Moment,
    /// Without a text of its own.
    is_small: bool,
    html: String,
}

struct VersionView {
    /// The event that told of it.
    event: String,
    short: String,
    href: String,
    is_here: bool,
}

/// What a pull request would change.
struct ChangesView {
    branch: String,
    commits: Vec<CommitLine>,
    files: Vec<FileChange>,
    total: Total,
    form: Form,
}

#[derive(Template)]
#[template(path = "topic.html")]
struct TopicPage {
    frame: Frame,
    header: Header,
    id: String,
    subject: String,
    status: &'static str,
    class: &'static str,
    open_in: String,
    /// The command that checks it out.
    command: Option<String>,
    entries: Vec<EntryView>,
    is_cut: bool,
    versions: Vec<VersionView>,
    changes: Option<ChangesView>,
}

pub(crate) async fn issues(cx: &RequestContext<'_>) -> HttpResult {
    list(cx, "issues", |topic| topic.kind == TopicKind::Issue).await
}

pub(crate) async fn proposals(cx: &RequestContext<'_>) -> HttpResult {
    list(cx, "proposals", |topic| topic.kind != TopicKind::Issue).await
}

async fn list(
    cx: &RequestContext<'_>,
    tab: &'static str,
    is_wanted: fn(&Topic) -> bool,
) -> HttpResult {
    let visit = Visit::open(cx, tab).await?;
    let known = cx.app.catalog.get(cx.app).await?;
    let about = about(&visit, &known);
    let store = cx.app.web.store.clone();
    let read = move || conversation::topics(&store, &about);
    let mut topics = cx
        .app
        .blocking("catalog", read)
        .await?
        .map_err(unreadable)?;
    topics.retain(is_wanted);
    let all = topics.len();
    let open = topics.iter().filter(|topic| topic.status.is_open()).count();
    let (is_all, page) = (
        flag(cx.query(), "all")?.unwrap_or(false),
        page_number(cx.query())?,
    );
    topics.retain(|topic| is_all || topic.status.is_open());
    let here = format!("{}/{tab}", visit.header.base);
    let (total, now) = (topics.len(), Now::new());
    let shown = topics.iter().skip((page - 1).saturating_mul(PER_PAGE));
    let shown: Vec<&Topic> = shown.take(PER_PAGE).collect();
    let people = People::read(cx.app, shown.iter().map(|topic| topic.event.pubkey)).await?;
    let line = |topic: &Topic| TopicLine {
        subject: topic.subject.clone(),
        href: format!("{}/topic/{}", visit.header.base, topic.event.id),
        status: word(topic.status, topic.kind),
        class: class(topic.status),
        is_patch: topic.kind == TopicKind::Patch,
        labels: topic.labels.clone(),
        author: people.name(&topic.event.pubkey),
        when: now.ago(&created_ms(&topic.event)),
    };
    let lines = shown.into_iter().map(line).collect();
    let title = if tab == "issues" {
        "Issues"
    } else {
        "Pull requests"
    };
    let form = if is_all { "all&" } else { "" };
    let page = TopicsPage {
        frame: visit.frame(title, &format!("{title} of {}", visit.header.name)),
        title,
        write: gitworkshop(&visit, tab),
        is_all,
        open,
        all,
        lines,
        pager: Pager::of(page, total.div_ceil(PER_PAGE), |page| {
            format!("{here}?{form}page={page}")
        }),
        here,
        header: visit.header.clone(),
    };
    super::render(StatusCode::OK, &page)
}

pub(crate) async fn topic(cx: &RequestContext<'_>) -> HttpResult {
    let mut visit = Visit::open(cx, "issues").await?;
    let no_such = || WebError::NotInRepository("issue, patch or pull request of that id");
    let id = EventId::from_hex(cx.params()[0]).map_err(|_| no_such())?;
    let known = cx.app.catalog.get(cx.app).await?;
    let about = about(&visit, &known);
    let store = cx.app.web.store.clone();
    let asked = about.clone();
    let read = move || conversation::thread(&store, &asked, &id);
    let thread = cx.app.blocking("catalog", read).await?;
    let thread = thread.map_err(unreadable)?.ok_or_else(no_such)?;
    let kind = thread.topic.kind;
    if kind != TopicKind::Issue {
        visit.header.tab = "proposals";
    }
    let versions = versions(&visit, &thread).await?;
    let changes = changes(&visit, &thread).await?;
    let said = thread.entries.iter().map(|entry| entry.event.pubkey);
    let people = People::read(cx.app, said.chain([thread.topic.event.pubkey])).await?;
    let thread = Arc::new(thread);
    let frame = cx.frame();
    let (rendered, of) = (Arc::clone(&thread), about.clone());
    // Markdown takes a while: off the runtime, in a turn like all reading for pages.
    let entries = visit
        .read(move |_, _| Ok(entries(&rendered, &of, &people, &frame)))
        .await?;
    let topic = &thread.topic;
    let id = topic.event.id.to_hex();
    let page = TopicPage {
        frame: visit.frame(&topic.subject, &topic.subject),
        subject: topic.subject.clone(),
        status: word(topic.status, kind),
        class: class(topic.status),
        open_in: gitworkshop(
            &visit,
            if kind == TopicKind::Issue {
                "issues"
            } else {
                "prs"
            },
        ),
        command: (kind != TopicKind::Issue).then(|| format!("ngit checkout {id}")),
        entries,
        is_cut: thread.is_cut,
        versions,
        changes,
        header: visit.header.clone(),
        id,
    };
    super::render(StatusCode::OK, &page)
}

fn entries(thread: &Thread, about: &About, people: &People, frame: &Frame) -> Vec<EntryView> {
    let now = Now::new();
    let view = |event: &Event, what, html: String, is_small| EntryView {
        id: event.id.to_hex(),
        author: people.name(&event.pubkey),
        author_href: frame.author(&event.pubkey),
        is_maintainer: is_maintainer(about, &event.pubkey),
        what,
        when: now.ago(&created_ms(event)),
        is_small,
        html,
    };
    let topic = &thread.topic;
    let mut texts = Texts { left: MAX_RENDERED };
    let (what, html) = match topic.kind {
        TopicKind::Issue => ("opened this", texts.markdown(&topic.event)),
        TopicKind::PullRequest => ("proposed this", texts.markdown(&topic.event)),
        TopicKind::Patch => ("sent a patch", texts.patch(&topic.event)),
    };
    let first = view(&topic.event, what, html, false);
    let later = thread.entries.iter().map(|entry| {
        let event = &entry.event;
        match &entry.what {
            What::Comment => view(event, "said", texts.markdown(event), false),
            What::Patch => view(event, "sent a patch", texts.patch(event), false),
            What::Update(_) => view(event, "pushed a new version", String::new(), true),
            What::Status(status) => {
                let what = match status {
                    Status::Open => "opened it",
                    Status::Done if topic.kind == TopicKind::Issue => "resolved it",
                    Status::Done => "merged it",
                    Status::Closed => "closed it",
                    Status::Draft => "made it a draft",
                };
                view(event, what, String::new(), true)
            }
        }
    });
    std::iter::once(first).chain(later).collect()
}

/// Renders texts as long as there is room for them on the page.
struct Texts {
    left: usize,
}

impl Texts {
    fn markdown(&mut self, event: &Event) -> String {
        let render = |text: &str| markdown::render(text, Nowhere);
        self.render(&event.content, render)
    }

    fn patch(&mut self, event: &Event) -> String {
        let render = |text: &str| {
            let code = highlight::code("diff", text);
            format!("<pre><code>{code}</code></pre>")
        };
        self.render(&event.content, render)
    }

    fn render(&mut self, text: &str, render: impl Fn(&str) -> String) -> String {
        if let Some(left) = self.left.checked_sub(text.len()) {
            self.left = left;
            return render(text);
        }
        let end = text.floor_char_boundary(MAX_BEGINNING.min(text.len()));
        markdown::plain(&format!("{}…", &text[..end]))
    }
}

/// The commits that a pull request was at, and which of them are here.
async fn versions(visit: &Visit<'_>, thread: &Thread) -> Result<Vec<VersionView>, WebError> {
    let mut views = Vec::new();
    for (event, tip) in thread.versions.iter().take(50) {
        let is_here = visit.revision(&tip.to_hex()).await?.is_some();
        views.push(VersionView {
            event: event.to_hex(),
            short: tip.short(),
            href: format!("{}/commit/{tip}", visit.header.base),
            is_here,
        });
    }
    Ok(views)
}

/// What the newest version of a pull request changes against the branch it is for: the one that its `b`
/// tag names (§17), else the default branch.
async fn changes(visit: &Visit<'_>, thread: &Thread) -> Result<Option<ChangesView>, WebError> {
    let named = first_value(&thread.topic.event, "b");
    let target = named.and_then(|branch| visit.branch(branch));
    let target = target.or_else(|| visit.head());
    let (Some((_, tip)), Some(head)) = (thread.versions.last(), target) else {
        return Ok(None);
    };
    if visit.revision(&tip.to_hex()).await?.is_none() {
        return Ok(None);
    }
    // Of the same cost as a comparison, and of the same pool.
    let _permit = visit.cx.permit(crate::limits::Class::Diff)?;
    let repositories = &visit.cx.app.web.repositories;
    let base = repositories
        .merge_base(&visit.repo, &head.commit, tip, GIT_BOUNDS)
        .await
        .map_err(not_inspected)?;
    let named = first_value(&thread.topic.event, "merge-base");
    let named: Option<Oid> = named.and_then(|oid| oid.parse().ok());
    // A merged request has its own tip as base: then its author's word counts, if it is history.
    let base = match named {
        Some(named) if base == Some(*tip) => {
            visit.revision(&named.to_hex()).await?.map(|(oid, _)| oid)
        }
        _ => base,
    };
    let from = base.unwrap_or(head.commit);
    let commits = repositories
        .commits_between(&visit.repo, &from, tip, MAX_COMMITS, GIT_BOUNDS)
        .await
        .map_err(not_inspected)?;
    let (files, total) = file_changes(visit, base, *tip).await?;
    Ok(Some(ChangesView {
        branch: head.name,
        commits: log::lines(visit, &commits).await?,
        files,
        total,
        form: Form::read(visit.cx),
    }))
}

fn about(visit: &Visit<'_>, known: &Catalog) -> About {
    let entry = known.get(&visit.repo);
    About {
        repo: visit.repo.clone(),
        maintainers: entry.map_or_else(Vec::new, |entry| entry.maintainers.clone()),
    }
}

fn is_maintainer(about: &About, key: &PublicKey) -> bool {
    about.repo.owner == *key || about.maintainers.contains(key)
}

/// The same part of the repository in a client that can write.
fn gitworkshop(visit: &Visit<'_>, part: &str) -> String {
    let part = if part == "proposals" { "prs" } else { part };
    let (npub, name) = (visit.repo.npub(), visit.repo.identifier.encoded());
    let relay = visit.cx.settings.service.relay_url();
    let hint = relay.strip_prefix("wss://").unwrap_or(&relay);
    let hint = grip_types::percent_encode(hint);
    format!("https://gitworkshop.dev/{npub}/{hint}/{name}/{part}")
}

fn word(status: Status, kind: TopicKind) -> &'static str {
    match (status, kind) {
        (Status::Open, _) => "open",
        (Status::Done, TopicKind::Issue) => "resolved",
        (Status::Done, _) => "merged",
        (Status::Closed, _) => "closed",
        (Status::Draft, _) => "draft",
    }
}

fn class(status: Status) -> &'static str {
    match status {
        Status::Open => "",
        Status::Draft | Status::Done => "plain",
        Status::Closed => "held",
    }
}

fn created_ms(event: &Event) -> i64 {
    let seconds = i64::try_from(event.created_at.as_secs()).unwrap_or(i64::MAX);
    seconds.saturating_mul(1000)
}

fn unreadable(error: StoreError) -> WebError {
    WebError::internal("a conversation cannot be read", error)
}
