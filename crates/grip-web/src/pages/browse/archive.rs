//! All files of a commit in one download.

use grip_git::{ArchiveFormat, InspectBounds};
use http::{HeaderValue, StatusCode, header};

use super::{Visit, not_inspected};
use crate::{
    body::Body,
    error::WebError,
    request_context::{HttpResult, RequestContext},
    respond,
};

/// What one archive may cost.
const BOUNDS: InspectBounds = InspectBounds {
    time: std::time::Duration::from_secs(300),
    bytes: 1 << 30,
};

pub(crate) async fn file(cx: &RequestContext<'_>) -> HttpResult {
    let mut visit = Visit::open(cx, "code").await?;
    let [name, _] = cx.params();
    let formats = [
        (".tar.gz", ArchiveFormat::TarGz, "application/gzip"),
        (".zip", ArchiveFormat::Zip, "application/zip"),
    ];
    let mut formats = formats.into_iter();
    let found = formats.find_map(|(suffix, format, kind)| {
        let revision = name.strip_suffix(suffix)?;
        Some((revision, suffix, format, kind))
    });
    let (revision, suffix, format, kind) =
        found.ok_or(WebError::NotInRepository("archive of that name"))?;
    let target = visit.target(revision).await?;
    if !target.path.is_empty() {
        return Err(WebError::NotInRepository("archive of that name"));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let clean = |text: &str| -> String {
        let text = text.chars().take(60);
        let text = text.map(|c| if plain(c) { c } else { '-' });
        text.collect::<String>().trim_matches('.').to_owned()
    };
    let named = if target.is_pinned {
        target.commit.short()
    } else {
        clean(&target.name)
    };
    let prefix = format!("{}-{named}", clean(visit.repo.identifier.as_str()));
    let stream = cx
        .app
        .web
        .repositories
        .archive_files(&visit.repo, &target.commit, format, &prefix, BOUNDS)
        .await
        .map_err(not_inspected)?;
    let mut response = respond::typed(StatusCode::OK, kind, Body::stream(stream));
    let disposition = format!("attachment; filename=\"{prefix}{suffix}\"");
    if let Ok(value) = HeaderValue::from_str(&disposition) {
        response
            .headers_mut()
            .insert(header::CONTENT_DISPOSITION, value);
    }
    Ok(response)
}
