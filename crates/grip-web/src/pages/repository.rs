//! The page of one repository (G01-33).

use askama::Template;
use grip_grasp::{Explanation, LookError, Missing, RepositoryStatus, RepositorySummary};
use grip_nostr::{RepoAddr, kinds};
use grip_types::RefName;
use http::StatusCode;

use super::{
    Frame, Notice,
    browse::{
        CommitLine, Header, Visit,
        files::{self, DirectoryView},
        log,
        visit::Target,
    },
    catalog, explain,
    time::{Moment, Now, span},
};
use crate::{
    ReplicaKind, ReplicaReport, ReplicaStatus,
    app::App,
    error::WebError,
    request_context::{HttpResult, RequestContext},
};

/// Held states whose missing objects are listed.
const EXPLAINED_STATES: usize = 3;

/// Objects listed as missing on a page; the API lists more.
const LISTED_MISSING: usize = 12;

#[derive(Template)]
#[template(path = "repository.html")]
pub(super) struct RepositoryPage {
    pub(super) frame: Frame,
    pub(super) header: Header,
    pub(super) summary: RepositorySummary,
    pub(super) notice: Option<Notice>,
    /// `<npub>/<identifier>` as paths have it.
    pub(super) path: String,
    /// What git-remote-nostr clones, with this relay as a hint.
    pub(super) nostr_url: String,
    pub(super) maintainers: Vec<PersonLink>,
    pub(super) elsewhere: Vec<Elsewhere>,
    /// None while there is nothing to show.
    pub(super) code: Option<Code>,
}

/// Somebody with a page.
pub(super) struct PersonLink {
    pub(super) name: String,
    pub(super) npub: String,
    pub(super) href: String,
    pub(super) is_owner: bool,
}

/// Another server that has it, and what is known of that.
pub(super) struct Elsewhere {
    pub(super) url: String,
    pub(super) known: String,
    pub(super) when: Option<Moment>,
}

/// The top directory of the default branch.
pub(super) struct Code {
    pub(super) target: Target,
    pub(super) latest: Option<CommitLine>,
    pub(super) directory: DirectoryView,
}

impl RepositoryPage {
    fn is_held(&self) -> bool {
        self.summary.status == RepositoryStatus::Held
    }

    fn is_head(&self, name: &RefName) -> bool {
        self.summary.head.as_ref() == Some(name)
    }

    /// The name of who signed the state.
    fn signer(&self, npub: &str) -> String {
        let mut known = self.maintainers.iter();
        let known = known.find(|person| person.npub == npub);
        known.map_or_else(|| super::short_npub(npub), |person| person.name.clone())
    }
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let (app, addr) = (cx.app, cx.repository()?);
    let cannot = |e| WebError::internal("a repository cannot be described", e);
    if let Some(reason) = app.web.grasp.damage(addr) {
        return Err(WebError::Damaged { reason });
    }
    let summary = app.web.grasp.summary(addr).await.map_err(cannot)?;
    let Some(summary) = summary else {
        return explain::absent(cx, addr).await;
    };
    let path = format!("{}/{}", summary.npub, addr.identifier.encoded());
    let known = app.catalog.get(app).await?;
    let frame = cx.frame();
    let link = |npub: &String| {
        let key = RepoAddr::parse_npub(npub);
        PersonLink {
            name: key.map_or_else(|| npub.clone(), |key| catalog::person(&key, &known)),
            href: format!("{}{npub}", frame.root()),
            is_owner: *npub == summary.npub,
            npub: npub.clone(),
        }
    };
    let maintainers = summary.maintainers.iter().map(link).collect();
    let (header, code) = if summary.status == RepositoryStatus::Served {
        let visit = Visit::open(cx, "code").await?;
        (visit.header.clone(), code(&visit).await?)
    } else {
        let header = Header {
            name: summary.name.clone(),
            owner: catalog::person(&addr.owner, &known),
            owner_href: frame.author(&addr.owner),
            base: frame.repository(addr),
            at: String::new(),
            tab: "code",
        };
        (header, None)
    };
    let description = match summary.description.lines().next() {
        Some(line) if !line.is_empty() => line.to_owned(),
        _ => format!("A git repository on {}", cx.settings.node.name),
    };
    let mut frame = frame.about(&*summary.name, description);
    frame.feed = Some(format!("{}/log.atom", header.base));
    let relay = cx.settings.service.relay_url();
    let hint = relay.strip_prefix("wss://").unwrap_or(&relay);
    let replicas = app.web.sync.replicas(addr);
    let elsewhere = elsewhere(app, addr, &summary.elsewhere, &replicas);
    let page = RepositoryPage {
        elsewhere,
        notice: notice(app, &path, &summary).await.map_err(cannot)?,
        nostr_url: format!(
            "nostr://{}/{}/{}",
            summary.npub,
            grip_types::percent_encode(hint),
            addr.identifier.encoded()
        ),
        frame,
        header,
        summary,
        path,
        maintainers,
        code,
    };
    super::render(StatusCode::OK, &page)
}

/// What this node knows of the other servers of a repository: clone URLs, then relays.
fn elsewhere(
    app: &App,
    addr: &RepoAddr,
    urls: &[String],
    replicas: &[ReplicaReport],
) -> Vec<Elsewhere> {
    let now = Now::new();
    let is_known = |url: &String| replicas.iter().any(|replica| replica.url == *url);
    let (git, relays): (Vec<_>, Vec<_>) = replicas
        .iter()
        .partition(|replica| replica.kind == ReplicaKind::Git);
    let shown = git.into_iter().map(|replica| Elsewhere::of(replica, now));
    // What its owner lists and this node does not ask, such as other kinds of URLs.
    let others: Vec<String> = urls.iter().filter(|url| !is_known(url)).cloned().collect();
    let mut all: Vec<Elsewhere> = shown.collect();
    all.extend(fetched(app, addr, &others, now));
    all.extend(
        relays
            .into_iter()
            .map(|replica| Elsewhere::of(replica, now)),
    );
    all
}

impl Elsewhere {
    fn of(replica: &ReplicaReport, now: Now) -> Self {
        let behind = replica.behind_seconds.filter(|seconds| *seconds > 0);
        let behind = behind.and_then(|seconds| span(seconds.saturating_mul(1_000)));
        let known = match (replica.status, behind) {
            (ReplicaStatus::Current, _) => "has the same state, looked at".to_owned(),
            (ReplicaStatus::Behind, Some(behind)) => format!("{behind} behind, since"),
            (ReplicaStatus::Behind, None) => "behind, since".to_owned(),
            (ReplicaStatus::Absent, _) => "does not have it, since".to_owned(),
            (ReplicaStatus::Unreachable, _) => "cannot be reached, since".to_owned(),
            (ReplicaStatus::Unknown, _) => "not looked at yet".to_owned(),
        };
        let when = match replica.status {
            ReplicaStatus::Current => replica.checked_at,
            _ => replica.since,
        };
        Self {
            url: replica.url.clone(),
            known,
            when: when.map(|at| now.ago(&at)),
        }
    }
}

/// What the search for data tells of clone URLs.
fn fetched(app: &App, addr: &RepoAddr, urls: &[String], now: Now) -> Vec<Elsewhere> {
    if urls.is_empty() {
        return Vec::new();
    }
    let tried = app.web.sync.tried(&addr.identifier);
    let of = |url: &String| {
        let last = tried.iter().find(|attempt| attempt.url == *url);
        let known = match last {
            Some(last) if last.is_success => "fetched from there".to_owned(),
            Some(last) => format!("{}, asked", last.outcome),
            None => "not asked by this node".to_owned(),
        };
        Elsewhere {
            url: url.clone(),
            known,
            when: last.map(|last| now.ago(&last.at)),
        }
    };
    urls.iter().map(of).collect()
}

/// The code of the default branch; what cannot be read is left out, for the rest of the page can.
async fn code(visit: &Visit<'_>) -> Result<Option<Code>, WebError> {
    let Some(target) = visit.head() else {
        return Ok(None);
    };
    let commit = target.commit;
    let top = visit
        .read(move |repositories, repo| repositories.path_entry(&repo.identifier, &commit, ""))
        .await;
    let top = match top {
        Ok(Some(top)) => top,
        Ok(None) | Err(WebError::NotInRepository(_) | WebError::NotShown(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(Some(Code {
        latest: log::lines(visit, &[commit]).await?.pop(),
        directory: files::directory(visit, &target, top.oid).await?,
        target,
    }))
}

/// What a visitor should know before anything else.
async fn notice(
    app: &App,
    name: &str,
    summary: &RepositorySummary,
) -> Result<Option<Notice>, LookError> {
    if let Some(until) = summary.withdrawn_until {
        let why = "Its owner no longer keeps it here. It can still be read for a while.";
        return Ok(Some(Notice {
            until: Some(super::when_ms(until)),
            ..Notice::new("Withdrawn.", why)
        }));
    }
    let is_held = summary.status == RepositoryStatus::Held;
    if !is_held && summary.held_states == 0 {
        return Ok(None);
    }
    let explanation = app.web.grasp.explain(name).await?;
    let missing = missing(app, &explanation).await?;
    if is_held {
        let why = "The announcement is here, the git data is not. It is served after the first \
                   push that matches a signed state.";
        let nothing_signed = summary.held_states == 0;
        return Ok(Some(Notice {
            missing: if nothing_signed {
                vec!["a state event (kind 30618) of a maintainer".into()]
            } else {
                missing
            },
            until: explanation.deadline.map(super::when_ms),
            ..Notice::new("Not served yet.", why)
        }));
    }
    let why = "A newer state is signed, but its git data has not come. What is shown here is the \
               last complete one.";
    let deadlines = explanation.held.iter().filter_map(|event| event.deadline);
    Ok(Some(Notice {
        missing,
        until: deadlines.max().map(super::when_ms),
        ..Notice::new("An update is on its way.", why)
    }))
}

/// The objects that the held states of a repository wait for.
async fn missing(app: &App, explanation: &Explanation) -> Result<Vec<String>, LookError> {
    let is_state = |kind: u16| kind == kinds::STATE.as_u16();
    let states = explanation.held.iter().filter(|e| is_state(e.kind));
    let (mut lines, mut total) = (Vec::new(), 0);
    for state in states.take(EXPLAINED_STATES) {
        let of_state = app.web.grasp.explain(&state.id).await?;
        total += of_state.missing_total;
        let line = |m: &Missing| format!("{} at {}", m.name, m.oid.short());
        lines.extend(of_state.missing.iter().map(line));
    }
    lines.truncate(LISTED_MISSING);
    if total > lines.len() {
        lines.push(format!("and {} more", total - lines.len()));
    }
    Ok(lines)
}
