//! Appending to the log, and finding what is in it.

use std::collections::{HashMap, HashSet};

use grip_db::{Column, Connection, DbError};
use grip_go::{ModulePath, Version};
use grip_tlog::{Frontier, Hash};

use super::{NewRecord, Record, SumDb, SumDbError, TOPIC, signed, sql::sql, unsigned};

/// The most records of one repository.
const MAX_PER_REPOSITORY: i64 = 50_000;
/// From this many on, commits without a tag have no room: strangers choose those, and tags need it.
const MAX_WITH_COMMITS: i64 = MAX_PER_REPOSITORY / 2;

/// The right edge as its row has it: size, roots, verifier.
type Edge = (i64, String, Option<String>);

impl SumDb {
    /// The record of a version.
    pub async fn find(
        &self,
        path: &ModulePath,
        version: &Version,
    ) -> Result<Option<Record>, SumDbError> {
        let asked = [path.as_str().into(), version.as_str().into()];
        Ok(self.inner.db.fetch_optional(&sql::FIND, &asked).await?)
    }

    /// Whether a repository may have further records. They stay for ever, also when it has gone.
    pub(crate) async fn has_room(&self, repo: &str, version: &Version) -> Result<bool, SumDbError> {
        let most = if version.is_pseudo() {
            MAX_WITH_COMMITS
        } else {
            MAX_PER_REPOSITORY
        };
        let asked = [repo.into(), most.into()];
        let last: Option<(i64,)> = self
            .inner
            .db
            .fetch_optional(&sql::LAST_ROOM, &asked)
            .await?;
        Ok(last.is_none())
    }

    /// Logs versions, and returns the record of each: that of before where there is one.
    ///
    /// All of it is on the disk when this returns, or nothing.
    pub(crate) async fn append(&self, new: Vec<NewRecord>) -> Result<Vec<Record>, SumDbError> {
        if new.is_empty() {
            return Ok(Vec::new());
        }
        let (verifier, now_ms) = (self.verifier(), self.inner.db.now_ms());
        self.inner
            .db
            .write(move |mut db| {
                Box::pin(async move {
                    let edge: Edge = db.fetch_one(&sql::LOCK, &[]).await?;
                    match Append::plan(&mut db, &verifier, edge, &new).await? {
                        Ok(append) => append.write(&mut db, &new, now_ms).await.map(Ok),
                        Err(error) => Ok(Err(error)),
                    }
                })
            })
            .await?
    }
}

/// What one transaction adds.
struct Append {
    known: HashMap<(String, String), Record>,
    added: Vec<Record>,
    nodes: Vec<(i64, i64, Hash)>,
    frontier: Frontier,
}

impl Append {
    async fn plan(
        db: &mut Connection<'_>,
        verifier: &str,
        (size, roots, signed_by): Edge,
        new: &[NewRecord],
    ) -> Result<Result<Self, SumDbError>, DbError> {
        if let Some(other) = signed_by.filter(|signed_by| signed_by != verifier) {
            return Ok(Err(SumDbError::OtherKey(other)));
        }
        let pairs = [
            Column::Texts(new.iter().map(|new| new.path.clone()).collect()),
            Column::Texts(new.iter().map(|new| new.version.clone()).collect()),
        ];
        let known: Vec<Record> = db.fetch_rows(&sql::KNOWN, &pairs, &[]).await?;
        Ok(frontier(size, &roots).map(|frontier| {
            let keyed = |record: Record| ((record.path.clone(), record.version.clone()), record);
            let mut append = Self {
                known: known.into_iter().map(keyed).collect(),
                added: Vec::new(),
                nodes: Vec::new(),
                frontier,
            };
            append.add(new);
            append
        }))
    }

    fn add(&mut self, new: &[NewRecord]) {
        let mut seen = HashSet::new();
        for new in new {
            let key = (new.path.clone(), new.version.clone());
            if self.known.contains_key(&key) || !seen.insert(key) {
                continue;
            }
            let record = Record {
                id: signed(self.frontier.size()),
                path: new.path.clone(),
                version: new.version.clone(),
                zip_sum: new.sums.zip.clone(),
                go_mod_sum: new.sums.go_mod.clone(),
                repo: new.repo.clone(),
                tag: new.tag.clone(),
                commit: new.commit.clone(),
            };
            let nodes = &mut self.nodes;
            self.frontier.append(record.hash(), |node, hash| {
                let level = i64::from(node.level / grip_tlog::HEIGHT);
                nodes.push((level, signed(node.index), hash));
            });
            self.added.push(record);
        }
    }

    async fn write(
        self,
        db: &mut Connection<'_>,
        new: &[NewRecord],
        now_ms: i64,
    ) -> Result<Vec<Record>, DbError> {
        if !self.added.is_empty() {
            let columns = record_columns(&self.added);
            db.execute_rows(&sql::ADD, &columns, &[now_ms.into()])
                .await?;
            if !self.nodes.is_empty() {
                let columns = [
                    Column::Ints(self.nodes.iter().map(|node| node.0).collect()),
                    Column::Ints(self.nodes.iter().map(|node| node.1).collect()),
                    Column::Texts(self.nodes.iter().map(|node| node.2.to_string()).collect()),
                ];
                db.execute_rows(&sql::ADD_NODES, &columns, &[]).await?;
            }
            let roots: Vec<_> = self.frontier.roots().iter().map(Hash::to_string).collect();
            let edge = [
                signed(self.frontier.size()).into(),
                roots.join(" ").into(),
                self.frontier.root().to_string().into(),
            ];
            db.execute(&sql::ADVANCE, &edge).await?;
            db.notify(TOPIC).await?;
        }
        let mut records = self.known;
        let keyed = |record: Record| ((record.path.clone(), record.version.clone()), record);
        records.extend(self.added.into_iter().map(keyed));
        let record = |new: &NewRecord| {
            let key = (new.path.clone(), new.version.clone());
            records.get(&key).cloned()
        };
        Ok(new.iter().filter_map(record).collect())
    }
}

fn frontier(size: i64, roots: &str) -> Result<Frontier, SumDbError> {
    let roots = roots.split_ascii_whitespace().map(str::parse);
    let roots = roots.collect::<Result<Vec<Hash>, _>>()?;
    Ok(Frontier::from_parts(unsigned(size)?, roots)?)
}

fn record_columns(rows: &[Record]) -> [Column; 9] {
    let texts = |text: &dyn Fn(&Record) -> String| Column::Texts(rows.iter().map(text).collect());
    [
        Column::Ints(rows.iter().map(|row| row.id).collect()),
        texts(&|row| row.path.clone()),
        texts(&|row| row.version.clone()),
        texts(&|row| row.zip_sum.clone()),
        texts(&|row| row.go_mod_sum.clone()),
        texts(&|row| row.hash().to_string()),
        texts(&|row| row.repo.clone()),
        Column::MaybeTexts(rows.iter().map(|row| row.tag.clone()).collect()),
        texts(&|row| row.commit.clone()),
    ]
}
