//! Directories and files of a commit.

use askama::Template;
use grip_browse::{diff::is_binary, highlight, markdown};
use grip_git::{DirectoryEntry, EntryKind, FileAt, Listing, RepoError, Repositories};
use grip_nostr::RepoAddr;
use grip_types::Oid;

use super::{
    Header, RepositoryLinks, Visit, encode_path,
    log::{self, CommitLine},
    size_text,
    visit::{self, Target},
};
use crate::{
    error::WebError,
    pages::Frame,
    query::flag,
    request_context::{HttpResult, RequestContext},
};

/// Entries of a directory that are listed.
const MAX_ENTRIES: usize = 1000;
/// Largest file that is shown; larger ones can be had as they are.
const MAX_SHOWN: u64 = 512 << 10;
/// Largest text about a directory that is shown below it.
const MAX_README: u64 = 256 << 10;
/// Lines that are shown of a file.
const MAX_LINES: usize = 10_000;

/// One step of the way to a file.
pub(super) struct Crumb {
    pub(super) name: String,
    pub(super) href: String,
}

/// The way to a path, from the top.
pub(super) fn crumbs(header: &Header, path: &str) -> Vec<Crumb> {
    let top = Crumb {
        name: header.name.clone(),
        href: format!("{}/tree/{}", header.base, header.at),
    };
    let ends = path.match_indices('/').map(|(at, _)| at);
    let ends = ends.chain((!path.is_empty()).then_some(path.len()));
    let below = ends.map(|end| Crumb {
        name: path[..end].rsplit('/').next().unwrap_or("").to_owned(),
        href: format!(
            "{}/tree/{}/{}",
            header.base,
            header.at,
            encode_path(&path[..end])
        ),
    });
    std::iter::once(top).chain(below).collect()
}

/// A directory, with the text about it.
pub(crate) struct Directory {
    listing: Listing,
    readme: Option<Readme>,
}

struct Readme {
    name: String,
    html: String,
}

/// A line of a listing.
pub(crate) struct EntryLine {
    pub(crate) name: String,
    /// None for a name that no address can hold.
    pub(crate) href: Option<String>,
    pub(crate) kind: &'static str,
    pub(crate) size: String,
}

/// A directory as pages show it.
pub(crate) struct DirectoryView {
    pub(crate) lines: Vec<EntryLine>,
    pub(crate) more: usize,
    pub(crate) readme_name: String,
    /// Safe HTML; empty where there is none.
    pub(crate) readme: String,
}

#[derive(Template)]
#[template(path = "tree.html")]
struct TreePage {
    frame: Frame,
    header: Header,
    crumbs: Vec<Crumb>,
    target: Target,
    latest: Option<CommitLine>,
    directory: DirectoryView,
    path: String,
}

#[derive(Template)]
#[template(path = "blob.html")]
struct BlobPage {
    frame: Frame,
    header: Header,
    crumbs: Vec<Crumb>,
    target: Target,
    /// The path, encoded.
    path: String,
    size: String,
    content: Content,
}

enum Content {
    /// Rendered, with a link to the text.
    Rendered(String),
    Lines {
        lines: Vec<String>,
        is_cut: bool,
    },
    Picture,
    Binary,
    TooLarge,
    Symlink(String),
    Submodule(String),
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let mut visit = Visit::open(cx, "code").await?;
    let target = visit.target(cx.params()[0]).await?;
    let etag = visit.etag(&target.commit);
    if etag.is_known(cx.headers()) {
        return Ok(etag.unchanged());
    }
    let (commit, path) = (target.commit, target.path.clone());
    let found = visit
        .read(move |repositories, repo| repositories.path_entry(&repo.identifier, &commit, &path))
        .await?;
    let found = found.ok_or(WebError::NotInRepository(
        "file of that name at this commit",
    ))?;
    let is_pinned = target.is_pinned;
    if found.kind == EntryKind::Directory {
        let page = tree(&visit, target, found.oid).await?;
        visit::render(&page, &etag, is_pinned)
    } else {
        let is_plain = flag(cx.query(), "plain")?.unwrap_or(false);
        let page = blob(&visit, target, found.kind, found.oid, is_plain).await?;
        visit::render(&page, &etag, is_pinned)
    }
}

async fn tree(visit: &Visit<'_>, target: Target, oid: Oid) -> Result<TreePage, WebError> {
    let directory = directory(visit, &target, oid).await?;
    let latest = log::lines(visit, &[target.commit]).await?.pop();
    let title = match &*target.path {
        "" => target.name.clone(),
        path => path.to_owned(),
    };
    let mut frame = visit.frame(&title, &format!("Files of {}", visit.header.name));
    frame.is_unlisted = target.is_pinned;
    Ok(TreePage {
        frame,
        crumbs: crumbs(&visit.header, &target.path),
        header: visit.header.clone(),
        path: encode_path(&target.path),
        target,
        latest,
        directory,
    })
}

/// The directory of a target, with its README rendered.
pub(crate) async fn directory(
    visit: &Visit<'_>,
    target: &Target,
    oid: Oid,
) -> Result<DirectoryView, WebError> {
    let links = RepositoryLinks {
        base: visit.header.base.clone(),
        at: encode_path(&target.name),
        directory: target.path.clone(),
    };
    let read = move |repositories: &Repositories, repo: &RepoAddr| {
        read_directory(repositories, repo, oid, links)
    };
    let directory = visit.read(read).await?;
    let (base, at) = (&visit.header.base, encode_path(&target.name));
    let below = match &*target.path {
        "" => String::new(),
        path => format!("{}/", encode_path(path)),
    };
    let line = |entry: &DirectoryEntry| {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        let (kind, page) = match entry.kind {
            EntryKind::Directory => ("directory", "tree"),
            EntryKind::File => ("file", "blob"),
            EntryKind::Executable => ("program", "blob"),
            EntryKind::Symlink => ("link", "blob"),
            EntryKind::Submodule => ("submodule", "blob"),
        };
        let is_text = std::str::from_utf8(&entry.name).is_ok();
        let encoded = encode_path(&name);
        EntryLine {
            href: is_text.then(|| format!("{base}/{page}/{at}/{below}{encoded}")),
            kind,
            size: entry.size.as_ref().map(size_text).unwrap_or_default(),
            name,
        }
    };
    let lines: Vec<_> = directory.listing.entries.iter().map(line).collect();
    let readme = directory.readme;
    Ok(DirectoryView {
        more: directory.listing.total.saturating_sub(lines.len()),
        lines,
        readme_name: readme.as_ref().map_or("", |readme| &readme.name).to_owned(),
        readme: readme.map(|readme| readme.html).unwrap_or_default(),
    })
}

fn read_directory(
    repositories: &Repositories,
    repo: &RepoAddr,
    oid: Oid,
    links: RepositoryLinks,
) -> Result<Directory, RepoError> {
    let listing = repositories.listing(&repo.identifier, &oid, MAX_ENTRIES)?;
    let rank = |entry: &&DirectoryEntry| {
        let name = entry.name.to_ascii_lowercase();
        let names: [&[u8]; 4] = [b"readme.md", b"readme.markdown", b"readme.txt", b"readme"];
        let is_file = matches!(entry.kind, EntryKind::File | EntryKind::Executable);
        let rank = names.iter().position(|readme| *readme == name);
        rank.filter(|_| is_file)
    };
    let ranked = listing.entries.iter().filter(|entry| rank(entry).is_some());
    let Some(entry) = ranked.min_by_key(rank) else {
        return Ok(Directory {
            listing,
            readme: None,
        });
    };
    let name = String::from_utf8_lossy(&entry.name).into_owned();
    let text = repositories.blob(&repo.identifier, &entry.oid, MAX_README)?;
    let readme = match text {
        FileAt::Bytes(bytes) if !is_binary(&bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let html = if is_markdown(&name) {
                markdown::render(&text, links)
            } else {
                markdown::plain(&text)
            };
            Some(Readme { name, html })
        }
        _ => None,
    };
    Ok(Directory { listing, readme })
}

async fn blob(
    visit: &Visit<'_>,
    target: Target,
    kind: EntryKind,
    oid: Oid,
    is_plain: bool,
) -> Result<BlobPage, WebError> {
    let directory = target.path.rsplit_once('/').map_or("", |(dir, _)| dir);
    let links = RepositoryLinks {
        base: visit.header.base.clone(),
        at: encode_path(&target.name),
        directory: directory.to_owned(),
    };
    let path = target.path.clone();
    let (content, size) = if kind == EntryKind::Submodule {
        (Content::Submodule(oid.to_hex()), None)
    } else {
        visit
            .read(move |repositories, repo| {
                let bytes = repositories.blob(&repo.identifier, &oid, MAX_SHOWN)?;
                Ok(show(bytes, kind, &path, is_plain, links))
            })
            .await?
    };
    let description = format!("{} in {}", target.path, visit.header.name);
    let mut frame = visit.frame(&target.path, &description);
    frame.is_unlisted = target.is_pinned || is_plain;
    Ok(BlobPage {
        frame,
        crumbs: crumbs(&visit.header, &target.path),
        header: visit.header.clone(),
        path: encode_path(&target.path),
        size: size.as_ref().map(size_text).unwrap_or_default(),
        content,
        target,
    })
}

fn show(
    found: FileAt,
    kind: EntryKind,
    path: &str,
    is_plain: bool,
    links: RepositoryLinks,
) -> (Content, Option<u64>) {
    let is_picture = super::raw::picture_type(path).is_some();
    let bytes = match found {
        FileAt::Bytes(bytes) => bytes,
        FileAt::TooLarge(size) if is_picture && size <= super::raw::MAX_BYTES => {
            return (Content::Picture, Some(size));
        }
        FileAt::TooLarge(size) => return (Content::TooLarge, Some(size)),
        FileAt::Missing | FileAt::NotAFile => return (Content::Binary, None),
    };
    let size = Some(bytes.len() as u64);
    if is_picture && !is_plain {
        return (Content::Picture, size);
    }
    if is_binary(&bytes) {
        return (Content::Binary, size);
    }
    let text = String::from_utf8_lossy(&bytes);
    let content = if kind == EntryKind::Symlink {
        Content::Symlink(text.into_owned())
    } else if is_markdown(path) && !is_plain {
        Content::Rendered(markdown::render(&text, links))
    } else {
        let mut lines = highlight::file(path, &text);
        let is_cut = lines.len() > MAX_LINES;
        lines.truncate(MAX_LINES);
        Content::Lines { lines, is_cut }
    };
    (content, size)
}

fn is_markdown(path: &str) -> bool {
    let name = path.to_ascii_lowercase();
    name.ends_with(".md") || name.ends_with(".markdown")
}

impl BlobPage {
    /// Whether there are two forms of the file.
    fn is_rendered(&self) -> bool {
        matches!(self.content, Content::Rendered(_))
    }

    fn has_lines(&self) -> bool {
        matches!(self.content, Content::Lines { .. })
    }
}
