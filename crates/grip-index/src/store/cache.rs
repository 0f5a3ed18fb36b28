//! Cached facts about tag objects and commits.

use std::collections::HashMap;

use grip_db::{Column, DbError};

use super::{
    Store,
    rows::{ints, maybe_texts, texts},
    sql::sql,
};
use crate::claim_rules::Known;

/// Facts about commits and tags of one repository.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// By the id of the tag object.
    pub(crate) times: HashMap<String, i64>,
    /// By commit and directory.
    pub(crate) go_mods: HashMap<(String, String), Known>,
}

impl Learned {
    pub(crate) fn len(&self) -> usize {
        self.times.len() + self.go_mods.len()
    }
}

type GoModRow = (String, String, Option<String>, Option<String>);

impl Store {
    /// What is known about these tag objects and commits.
    pub(crate) async fn learned(
        &self,
        repo: &str,
        objects: Vec<String>,
        commits: Vec<String>,
    ) -> Result<Learned, DbError> {
        let repo = repo.to_owned();
        let (times, go_mods): (Vec<(String, i64)>, Vec<GoModRow>) = self
            .db
            .read(|mut db| {
                Box::pin(async move {
                    let asked = [repo.clone().into(), objects.into()];
                    let times = db.fetch_all(&sql::TIMES, &asked).await?;
                    let asked = [repo.into(), commits.into()];
                    let go_mods = db.fetch_all(&sql::GO_MODS, &asked).await?;
                    Ok((times, go_mods))
                })
            })
            .await?;
        let known = |path, why| match (path, why) {
            (Some(path), _) => Known::Names(path),
            (None, Some(why)) => Known::Bad(why),
            (None, None) => Known::Absent,
        };
        let go_mods = go_mods.into_iter();
        let go_mods = go_mods.map(|(oid, dir, path, why)| ((oid, dir), known(path, why)));
        Ok(Learned {
            times: times.into_iter().collect(),
            go_mods: go_mods.collect(),
        })
    }

    /// Keeps what was learned, whatever becomes of the turn it was learned in.
    pub(crate) async fn learn(&self, repo: &str, new: Learned) -> Result<(), DbError> {
        let repo = repo.to_owned();
        let times: Vec<_> = new.times.into_iter().collect();
        let go_mods: Vec<_> = new.go_mods.into_iter().collect();
        self.db
            .write(|mut db| {
                Box::pin(async move {
                    if !times.is_empty() {
                        let columns = [texts(&times, |t| &t.0), ints(&times, |t| t.1)];
                        let repo = [repo.clone().into()];
                        db.execute_rows(&sql::ADD_TIMES, &columns, &repo).await?;
                    }
                    if !go_mods.is_empty() {
                        let columns = go_mod_columns(&go_mods);
                        let repo = [repo.into()];
                        db.execute_rows(&sql::ADD_GO_MODS, &columns, &repo).await?;
                    }
                    Ok(())
                })
            })
            .await
    }
}

fn go_mod_columns(rows: &[((String, String), Known)]) -> [Column; 4] {
    [
        texts(rows, |row| &row.0.0),
        texts(rows, |row| &row.0.1),
        maybe_texts(rows, |row| match &row.1 {
            Known::Names(path) => Some(path),
            Known::Absent | Known::Bad(_) => None,
        }),
        maybe_texts(rows, |row| match &row.1 {
            Known::Bad(why) => Some(why),
            Known::Absent | Known::Names(_) => None,
        }),
    ]
}
