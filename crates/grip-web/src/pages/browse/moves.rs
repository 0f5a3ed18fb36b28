//! Recorded moves of branches and tags, and the tips of before.

use askama::Template;
use grip_grasp::ListedMove;
use grip_types::Oid;
use http::StatusCode;

use super::{Header, Visit};
use crate::{
    error::WebError,
    pages::{
        self, Frame,
        pager::Pager,
        short_npub,
        time::{Moment, Now},
    },
    query::page_number,
    request_context::{HttpResult, RequestContext},
};

/// Moves of one page.
const PER_PAGE: usize = 100;

struct MoveLine {
    name: String,
    when: Moment,
    from: Option<Tip>,
    to: Option<Tip>,
    author: Option<String>,
}

struct Tip {
    oid: Oid,
    short: String,
}

#[derive(Template)]
#[template(path = "moves.html")]
struct MovesPage {
    frame: Frame,
    header: Header,
    clone_url: String,
    lines: Vec<MoveLine>,
    pager: Pager,
}

pub(crate) async fn page(cx: &RequestContext<'_>) -> HttpResult {
    let visit = Visit::open(cx, "refs").await?;
    let page = page_number(cx.query())?;
    let skip = (page - 1).saturating_mul(PER_PAGE);
    let grasp = &cx.app.web.grasp;
    let listed = grasp.ref_moves(&visit.repo, skip, PER_PAGE).await;
    let listed = listed.map_err(|e| WebError::internal("the archive cannot be read", e))?;
    let listed = listed.ok_or(WebError::NoSuchRepository)?;
    let (base, now) = (&visit.header.base, Now::new());
    let here = format!("{base}/moves");
    let page = MovesPage {
        frame: visit.frame(
            "Moves",
            "When branches and tags were moved, and the tips of before",
        ),
        clone_url: format!(
            "{}/{}",
            grasp.policy().service.http_url(),
            visit.repo.path()
        ),
        lines: listed.moves.iter().map(|it| line(it, now)).collect(),
        pager: Pager::of(page, listed.total.div_ceil(PER_PAGE), |page| {
            format!("{here}?page={page}")
        }),
        header: visit.header.clone(),
    };
    pages::render(StatusCode::OK, &page)
}

fn line(it: &ListedMove, now: Now) -> MoveLine {
    let tip = |oid: Oid| Tip {
        short: oid.short(),
        oid,
    };
    MoveLine {
        name: it.name.short().to_owned(),
        when: now.ago(&i64::try_from(it.at).unwrap_or(i64::MAX)),
        from: it.from.map(tip),
        to: it.to.map(tip),
        author: it.author.as_deref().map(short_npub),
    }
}
