//! One commit, and what it changes.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use askama::Template;
use grip_browse::diff::{self, FileDiff};
use grip_git::{Change, EntryKind, FileAt, RepoError, Repositories, Version};
use grip_types::{Identifier, Oid};

use super::{Header, Visit, encode_path, log, visit};
use crate::{
    error::WebError,
    pages::{
        Frame,
        time::{Moment, moment_ms},
    },
    query::query_value,
    request_context::{HttpResult, RequestContext},
};

/// Files and directories that are looked at.
const MAX_CHANGES: usize = 3000;
/// Files whose lines are shown; the others are named.
const MAX_FILES: usize = 100;
/// Lines of all files together.
const MAX_LINES: usize = 6000;
/// How long files are compared; those left are named.
const MAX_TIME: Duration = Duration::from_millis(1500);

/// A file that differs, as pages show it.
pub(crate) struct FileChange {
    pub(crate) path: String,
    /// Its address at the newer commit.
    pub(crate) href: Option<String>,
    pub(crate) what: &'static str,
    /// The name it had before.
    pub(crate) renamed_from: Option<String>,
    /// None where the lines are not shown.
    pub(crate) diff: Option<FileDiff>,
    /// Why they are not.
    pub(crate) note: &'static str,
}

/// Figures of all files together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Total {
    pub(crate) files: usize,
    pub(crate) added: usize,
    pub(crate) removed: usize,
    /// There are more files than were looked at.
    pub(crate) is_cut: bool,
}

/// The other form of the page.
pub(crate) struct Form {
    pub(crate) is_split: bool,
    pub(crate) other: String,
}

impl Form {
    pub(crate) fn read(cx: &RequestContext<'_>) -> Self {
        let is_split = query_value(cx.query(), "view") == Some("split");
        let path = cx.head.uri.path();
        Self {
            is_split,
            other: if is_split {
                path.to_owned()
            } else {
                format!("{path}?view=split")
            },
        }
    }
}

struct ParentLink {
    href: String,
    short: String,
}

#[derive(Template)]
#[template(path = "commit.html")]
struct CommitPage {
    frame: Frame,
    header: Header,
    oid: String,
    subject: String,
    body: String,
    author: String,
    email: String,
    authored: Moment,
    committer: Option<String>,
    committed: Moment,
    parents: Vec<ParentLink>,
    files: Vec<FileChange>,
    total: Total,
    form: Form,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let mut visit = Visit::open(cx, "history").await?;
    let target = visit.target(cx.params()[0]).await?;
    let etag = visit.etag(&target.commit);
    if etag.is_known(cx.headers()) {
        return Ok(etag.unchanged());
    }
    let mut found = log::details(&visit, vec![target.commit]).await?;
    let details = found.pop();
    let details = details.ok_or(WebError::NotInRepository("commit of that name"))?;
    let before = details.parents.first().copied();
    let (files, total) = file_changes(&visit, before, target.commit).await?;
    let base = &visit.header.base;
    let parent = |oid: &Oid| ParentLink {
        href: format!("{base}/commit/{oid}"),
        short: oid.short(),
    };
    let is_same = details.author.name == details.committer.name;
    let subject: String = details.subject().chars().take(300).collect();
    let mut frame = visit.frame(&subject, &format!("Commit {}", target.commit.short()));
    frame.is_unlisted = true;
    let page = CommitPage {
        frame,
        header: visit.header.clone(),
        oid: target.commit.to_hex(),
        body: details.body().chars().take(20_000).collect(),
        subject,
        authored: moment_ms(&details.author.at_ms),
        committed: moment_ms(&details.committer.at_ms),
        committer: (!is_same).then_some(details.committer.name),
        author: details.author.name,
        email: details.author.email,
        parents: details.parents.iter().take(20).map(parent).collect(),
        files,
        total,
        form: Form::read(cx),
    };
    visit::render(&page, &etag, target.is_pinned)
}

/// The files that differ between two commits.
pub(crate) async fn file_changes(
    visit: &Visit<'_>,
    before: Option<Oid>,
    after: Oid,
) -> Result<(Vec<FileChange>, Total), WebError> {
    let base = visit.header.base.clone();
    visit
        .read(move |repositories, repo| {
            let identifier = &repo.identifier;
            let found = repositories.changes(identifier, before.as_ref(), &after, MAX_CHANGES)?;
            let files = with_renames(found.changes);
            let mut comparison = Comparison {
                repositories,
                identifier,
                until: Instant::now() + MAX_TIME,
                lines: MAX_LINES,
                files: MAX_FILES,
            };
            let mut total = Total {
                files: files.len(),
                is_cut: found.is_cut,
                ..Total::default()
            };
            let mut shown = Vec::with_capacity(files.len());
            for (change, renamed_from) in files {
                let (diff, note) = comparison.compare(&change)?;
                if let Some(diff) = &diff {
                    total.added += diff.added;
                    total.removed += diff.removed;
                }
                let path = String::from_utf8_lossy(&change.path).into_owned();
                let encoded = encode_path(&path);
                shown.push(FileChange {
                    href: (change.after.is_some())
                        .then(|| format!("{base}/blob/{after}/{encoded}")),
                    what: what(&change, renamed_from.is_some()),
                    path,
                    renamed_from,
                    diff,
                    note,
                });
            }
            Ok((shown, total))
        })
        .await
}

fn what(change: &Change, is_renamed: bool) -> &'static str {
    match (&change.before, &change.after) {
        _ if is_renamed => "renamed",
        (None, _) => "added",
        (_, None) => "removed",
        (Some(before), Some(after)) if before.kind != after.kind => "changed its kind",
        _ => "changed",
    }
}

/// Joins a file that went with one of the same content that came.
fn with_renames(changes: Vec<Change>) -> Vec<(Change, Option<String>)> {
    let mut gone: HashMap<Oid, Vec<u8>> = HashMap::new();
    for change in &changes {
        if let (Some(before), None) = (&change.before, &change.after) {
            gone.insert(before.oid, change.path.clone());
        }
    }
    let mut moved: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    for change in &changes {
        if let (None, Some(after)) = (&change.before, &change.after)
            && let Some(from) = gone.remove(&after.oid)
        {
            moved.insert(change.path.clone(), from);
        }
    }
    let left: std::collections::HashSet<_> = moved.values().cloned().collect();
    let stays = changes
        .into_iter()
        .filter(|change| !left.contains(&change.path));
    stays
        .map(|change| {
            let from = moved.get(&change.path);
            let from = from.map(|path| String::from_utf8_lossy(path).into_owned());
            (change, from)
        })
        .collect()
}

/// Compares files as long as there is time and room.
struct Comparison<'a> {
    repositories: &'a Repositories,
    identifier: &'a Identifier,
    until: Instant,
    lines: usize,
    files: usize,
}

impl Comparison<'_> {
    fn compare(&mut self, change: &Change) -> Result<(Option<FileDiff>, &'static str), RepoError> {
        if self.files == 0 || self.lines == 0 || Instant::now() > self.until {
            return Ok((None, "not shown: there is too much else on this page"));
        }
        self.files -= 1;
        let (Some(before), Some(after)) = (self.read(change.before)?, self.read(change.after)?)
        else {
            return Ok((None, "too large to be compared"));
        };
        let Some(diff) = diff::compare(&before, &after) else {
            return Ok((None, "no text"));
        };
        let lines: usize = diff.hunks.iter().map(|hunk| hunk.lines.len()).sum();
        if lines > self.lines {
            self.lines = 0;
            return Ok((None, "not shown: there is too much else on this page"));
        }
        self.lines -= lines;
        Ok((Some(diff), ""))
    }

    /// The bytes of one side; `None` if there are too many.
    fn read(&self, version: Option<Version>) -> Result<Option<Vec<u8>>, RepoError> {
        let Some(version) = version else {
            return Ok(Some(Vec::new()));
        };
        if version.kind == EntryKind::Submodule {
            return Ok(Some(format!("commit {}\n", version.oid).into_bytes()));
        }
        let max = diff::MAX_BYTES as u64;
        let found = self.repositories.blob(self.identifier, &version.oid, max)?;
        Ok(match found {
            FileAt::Bytes(bytes) => Some(bytes),
            _ => None,
        })
    }
}
