//! Names this server had before: what was acknowledged under one of them stays.

use grip_db::DbError;
use grip_purgatory::{Change, Row};
use grip_types::Service;

use crate::commit::Commit;

/// The class of their rows in the journal.
const CLASS: &str = "service";
/// How many are kept, the latest ones.
const MAX_NAMES: usize = 16;

/// Takes the names from the rows of the journal and leaves the others; notes the present one. Warns
/// if it is new here.
pub(crate) async fn restore(
    rows: &mut Vec<Row>,
    service: &Service,
    commit: &Commit,
    now: i64,
) -> Result<Vec<Service>, DbError> {
    let mut named: Vec<(i64, Service)> = Vec::new();
    rows.retain(|row| {
        let ours = row.class == CLASS;
        let name = ours.then(|| Service::parse(&row.key).ok()).flatten();
        named.extend(name.map(|name| (row.expires_at, name)));
        !ours
    });
    named.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    let latest = named.first().map(|(_, name)| name.clone());
    if latest.as_ref() != Some(service) {
        let row = Row {
            class: CLASS.to_owned(),
            key: service.to_string(),
            identifier: String::new(),
            payload: "{}".to_owned(),
            expires_at: now,
        };
        let permit = commit.permit().await;
        commit.held(permit, vec![Change::Put(row)]).await?;
    }
    if let Some(latest) = latest.filter(|latest| latest != service) {
        tracing::warn!(
            before = %latest,
            now = %service,
            "this server has another name than at its last start: what was announced under the \
             old one stays, new announcements have to list the new one"
        );
    }
    let former = named.into_iter().map(|(_, name)| name);
    let former = former.filter(|name| name != service).take(MAX_NAMES);
    Ok(former.collect())
}
