//! Ref updates: all edits of a call or none.

use std::{cmp::Ordering, io};

use grip_types::{Oid, RefEdit, RefName};

use crate::{
    objects::{ObjectKind, PeelError, Reader},
    repositories::RepoError,
};

use super::{Ref, RefSnapshot};

/// Why no ref was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefUpdateError {
    #[error("{name} is at {}, not at {} as expected: fetch first", shown(.actual), shown(.expected))]
    Stale {
        name: RefName,
        expected: Option<Oid>,
        actual: Option<Oid>,
    },
    #[error("{0} is named twice in one update")]
    Duplicate(RefName),
    #[error("{0} and {1} cannot exist side by side in git")]
    Conflict(RefName, RefName),
    #[error("object {oid} for {name} is missing")]
    Missing { name: RefName, oid: Oid },
    #[error("{name} is a branch, but {oid} is not a commit")]
    NotACommit { name: RefName, oid: Oid },
    #[error("HEAD can only name a branch, not {0}")]
    Head(RefName),
    #[error("{name} cannot be set")]
    Tag { name: RefName, source: PeelError },
    #[error(transparent)]
    Repository(#[from] RepoError),
    #[error("the refs could not be written")]
    Io(#[from] io::Error),
}

fn shown(oid: &Option<Oid>) -> String {
    oid.map_or_else(|| "nothing".to_owned(), |oid| oid.short())
}

/// The refs after `edits`; `None` if they change nothing. `resolve` says what a ref at an object is.
pub(crate) fn apply(
    snapshot: &RefSnapshot,
    edits: &[RefEdit],
    resolve: impl Fn(&RefName, Oid) -> Result<Ref, RefUpdateError>,
) -> Result<Option<Vec<Ref>>, RefUpdateError> {
    let mut edits: Vec<&RefEdit> = edits.iter().collect();
    edits.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    if let Some(pair) = edits.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(RefUpdateError::Duplicate(pair[0].name.clone()));
    }
    let all = snapshot.all();
    let mut after = Vec::with_capacity(all.len() + edits.len());
    let mut created = Vec::new();
    let mut changed = false;
    let mut old = all.iter().peekable();
    for edit in edits {
        let mut current = None;
        while let Some(next) = old.peek() {
            match next.name.cmp(&edit.name) {
                Ordering::Less => after.extend(old.next().cloned()),
                Ordering::Equal => current = old.next(),
                Ordering::Greater => break,
            }
        }
        check_expected(edit, current)?;
        changed |= current.map(|r| r.oid) != edit.new;
        match (edit.new, current) {
            (Some(new), Some(current)) if new == current.oid => after.push(current.clone()),
            (Some(new), current) => {
                if current.is_none() {
                    created.push(edit.name.clone());
                }
                after.push(resolve(&edit.name, new)?);
            }
            (None, _) => {}
        }
    }
    after.extend(old.cloned());
    refuse_conflicts(&after, &created)?;
    Ok(changed.then_some(after))
}

fn check_expected(edit: &RefEdit, current: Option<&Ref>) -> Result<(), RefUpdateError> {
    let actual = current.map(|r| r.oid);
    if edit.old == actual {
        return Ok(());
    }
    Err(RefUpdateError::Stale {
        name: edit.name.clone(),
        expected: edit.old,
        actual,
    })
}

/// A ref at an object, which has to be one that it may name.
pub(crate) fn resolve(name: &RefName, oid: Oid, reader: &Reader) -> Result<Ref, RefUpdateError> {
    let name = name.clone();
    let peeled = match reader.kind(&oid) {
        None => return Err(RefUpdateError::Missing { name, oid }),
        Some(ObjectKind::Commit) => None,
        Some(_) if name.is_head() => return Err(RefUpdateError::NotACommit { name, oid }),
        Some(ObjectKind::Tag) => match reader.peel(&oid) {
            Ok(peeled) => peeled,
            Err(source) => return Err(RefUpdateError::Tag { name, source }),
        },
        Some(ObjectKind::Tree | ObjectKind::Blob) => None,
    };
    Ok(Ref { name, oid, peeled })
}

/// A ref cannot be the directory of others. Only new names can bring a conflict in.
fn refuse_conflicts(after: &[Ref], created: &[RefName]) -> Result<(), RefUpdateError> {
    let find = |name: &str| after.binary_search_by(|r| r.name.as_str().cmp(name));
    for name in created {
        for (slash, _) in name.as_str().match_indices('/').skip(2) {
            if let Ok(at) = find(&name.as_str()[..slash]) {
                return Err(RefUpdateError::Conflict(
                    after[at].name.clone(),
                    name.clone(),
                ));
            }
        }
        let inside = format!("{name}/");
        let at = find(&inside).unwrap_or_else(|at| at);
        if let Some(child) = after
            .get(at)
            .filter(|r| r.name.as_str().starts_with(&inside))
        {
            return Err(RefUpdateError::Conflict(name.clone(), child.name.clone()));
        }
    }
    Ok(())
}
