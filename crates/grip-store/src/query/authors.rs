//! The ranges of an author filter.
//!
//! There is no index of authors alone: it would cost every save another page to write. The index of
//! author and kind serves both, because an author has few kinds, found by hopping over each.

use grip_nostr::Filter;

use crate::{
    StoreError,
    keys::{self, AUTHOR_KIND_LEN, AuthorKind},
    lookup::Lookup,
};

pub(super) type Prefixes = Vec<Vec<u8>>;

/// Up to how many kinds are asked for one by one; with more, those the author has are looked up.
const FEW_KINDS: usize = 8;

/// The prefixes that hold all candidates of the filter, `None` if it names no authors, or if
/// finding them takes more than `max` prefixes or hops; and the hops it took.
pub(super) fn prefixes(
    filter: &Filter,
    lookup: Lookup<'_>,
    max: usize,
) -> Result<(Option<Prefixes>, usize), StoreError> {
    let Some(authors) = &filter.authors else {
        return Ok((None, 0));
    };
    match filter.kinds.as_deref() {
        Some(kinds) if kinds.len() <= FEW_KINDS => Ok((asked(authors, kinds, max), 0)),
        kinds => present(authors, kinds, lookup, max),
    }
}

fn asked(authors: &[[u8; 32]], kinds: &[u16], max: usize) -> Option<Vec<Vec<u8>>> {
    let pairs = authors
        .iter()
        .flat_map(|author| kinds.iter().map(|kind| keys::author_kind(author, *kind)));
    (authors.len() * kinds.len() <= max).then(|| pairs.map(Vec::from).collect())
}

fn present(
    authors: &[[u8; 32]],
    kinds: Option<&[u16]>,
    lookup: Lookup<'_>,
    max: usize,
) -> Result<(Option<Prefixes>, usize), StoreError> {
    let mut prefixes = Vec::new();
    // An author without events costs a look as well.
    let mut hops = authors.len();
    if hops > max {
        return Ok((None, 0));
    }
    for author in authors {
        for kind in Kinds::of(author, lookup) {
            let kind = kind?;
            hops += 1;
            if hops > max {
                return Ok((None, hops));
            }
            if kinds.is_none_or(|wanted| wanted.binary_search(&kind).is_ok()) {
                prefixes.push(keys::author_kind(author, kind).to_vec());
            }
        }
    }
    Ok((Some(prefixes), hops))
}

/// The kinds of which an author has events, ascending.
struct Kinds<'t> {
    lookup: Lookup<'t>,
    /// From where to look on; `None` at the end.
    from: Option<AuthorKind>,
}

impl<'t> Kinds<'t> {
    fn of(author: &[u8; 32], lookup: Lookup<'t>) -> Self {
        Self {
            lookup,
            from: Some(keys::author_kind(author, 0)),
        }
    }

    fn hop(&mut self) -> Result<Option<u16>, StoreError> {
        let Some(from) = self.from.take() else {
            return Ok(None);
        };
        let Lookup { tables, txn } = self.lookup;
        let found = tables.by_author.get_greater_than_or_equal_to(txn, &from)?;
        let Some((key, _)) = found else {
            return Ok(None);
        };
        let key = key
            .first_chunk::<AUTHOR_KIND_LEN>()
            .ok_or_else(|| StoreError::Corrupt("an author key is too short"))?;
        let (author, kind) = key.split_first_chunk().expect("an author has 32 bytes");
        if !from.starts_with(author) {
            return Ok(None);
        }
        let kind = u16::from_be_bytes(kind.try_into().expect("a kind has the other two"));
        self.from = kind
            .checked_add(1)
            .map(|next| keys::author_kind(author, next));
        Ok(Some(kind))
    }
}

impl Iterator for Kinds<'_> {
    type Item = Result<u16, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.hop().transpose()
    }
}
