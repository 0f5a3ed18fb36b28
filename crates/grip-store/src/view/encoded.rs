//! All keys of a store, encoded as changes are for other copies.

use super::ReadView;
use crate::{
    StoreError,
    changes::{self, Change, Which},
};

impl ReadView<'_> {
    /// Passes on changes that lead an empty store to this one, which
    /// [`WriteView::apply_changes`](crate::WriteView::apply_changes) makes: one after the other, each of
    /// about so many bytes.
    pub fn encoded<E: From<StoreError>>(
        &self,
        piece_bytes: usize,
        mut pass_on: impl FnMut(Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut piece, mut bytes) = (Vec::new(), 0);
        for which in Which::ALL {
            let entries = which.of(&self.tables).iter(&self.txn);
            for entry in entries.map_err(StoreError::from)? {
                let (key, value) = entry.map_err(StoreError::from)?;
                let change = Change::new(which, key, Some(value));
                bytes += change.size_bytes();
                piece.push(change);
                if bytes >= piece_bytes {
                    pass_on(changes::encode(&piece))?;
                    piece.clear();
                    bytes = 0;
                }
            }
        }
        if piece.is_empty() {
            Ok(())
        } else {
            pass_on(changes::encode(&piece))
        }
    }
}
