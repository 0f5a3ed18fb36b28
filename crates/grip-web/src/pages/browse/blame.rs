//! The commits that the lines of a file come from.

use askama::Template;
use grip_browse::highlight;

use super::{
    GIT_BOUNDS, Header, Visit, encode_path,
    files::{Crumb, crumbs},
    not_inspected,
    visit::{self, Target},
};
use crate::{
    pages::{
        Frame,
        time::{Moment, Now},
    },
    request_context::{HttpResult, RequestContext},
};

struct Line {
    /// The commit, at the first of several lines of it.
    commit: Option<Origin>,
    html: String,
}

struct Origin {
    href: String,
    short: String,
    author: String,
    subject: String,
    when: Moment,
}

#[derive(Template)]
#[template(path = "blame.html")]
struct BlamePage {
    frame: Frame,
    header: Header,
    crumbs: Vec<Crumb>,
    target: Target,
    path: String,
    lines: Vec<Line>,
    is_cut: bool,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let mut visit = Visit::open(cx, "code").await?;
    let target = visit.target(cx.params()[0]).await?;
    let etag = visit.etag(&target.commit);
    if etag.is_known(cx.headers()) {
        return Ok(etag.unchanged());
    }
    let blame = cx
        .app
        .web
        .repositories
        .blame(&visit.repo, &target.commit, &target.path, GIT_BOUNDS)
        .await
        .map_err(not_inspected)?;
    let text: Vec<&str> = blame.lines.iter().map(|line| &*line.text).collect();
    let html = highlight::file(&target.path, &(text.join("\n") + "\n"));
    let (base, now) = (&visit.header.base, Now::new());
    let mut previous = None;
    let lines = blame.lines.iter().zip(html).map(|(line, html)| {
        let is_first = previous.replace(line.commit) != Some(line.commit);
        let facts = blame.commits.get(&line.commit).filter(|_| is_first);
        let commit = facts.map(|facts| Origin {
            href: format!("{base}/commit/{}", line.commit),
            short: line.commit.short(),
            author: facts.author.chars().take(30).collect(),
            subject: facts.subject.chars().take(120).collect(),
            when: now.ago(&facts.at_ms),
        });
        Line { commit, html }
    });
    let lines = lines.collect();
    let mut frame = visit.frame(&format!("Blame of {}", target.path), "Origins of lines");
    frame.is_unlisted = true;
    let is_pinned = target.is_pinned;
    let page = BlamePage {
        frame,
        crumbs: crumbs(&visit.header, &target.path),
        header: visit.header.clone(),
        path: encode_path(&target.path),
        target,
        lines,
        is_cut: blame.is_cut,
    };
    visit::render(&page, &etag, is_pinned)
}
