//! Signed heads, and the file that remembers the latest.
//!
//! A database that was set back to an older state would have this node sign a second history under
//! the same key; a client that saw both calls that an attack. The file is how the node notices.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    sync::Arc,
};

use grip_tlog::{SpanHasher, TreeHead};

use super::{SumDb, SumDbError};

impl SumDb {
    /// The head of the log, signed.
    pub async fn latest(&self) -> Result<Arc<str>, SumDbError> {
        // Taken before the head is read: that one is not older, unless the database was set back.
        let before = self.inner.signed.lock().clone();
        let head = self.head().await?;
        if let Some((signed, note)) = before {
            if signed == head {
                return Ok(note);
            }
            if !self.begins_with(&head, &signed).await? {
                let why = "it does not begin with what this node has signed: it was set back";
                return Err(SumDbError::Damaged(why.to_owned()));
            }
        }
        let note: Arc<str> = self.inner.signer.sign(&head.to_note()).into();
        let (path, text) = (self.inner.signed_file.clone(), Arc::clone(&note));
        let kept_size = Arc::clone(&self.inner.kept_size);
        let writing = self.inner.group.spawn_blocking("sumdb.sign", move || {
            // One at a time, and no older one after a newer.
            let mut kept_size = kept_size.lock();
            if kept_size.is_none_or(|kept| kept < head.size) {
                keep(&path, &text)?;
                *kept_size = Some(head.size);
            }
            io::Result::Ok(())
        });
        let written = writing.await;
        written.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::Interrupted)))?;
        let mut signed = self.inner.signed.lock();
        if signed
            .as_ref()
            .is_none_or(|(signed, _)| signed.size < head.size)
        {
            *signed = Some((head, Arc::clone(&note)));
        }
        Ok(note)
    }

    /// Says whether a log with this head begins with all of an earlier one.
    async fn begins_with(&self, now: &TreeHead, earlier: &TreeHead) -> Result<bool, SumDbError> {
        Ok(match earlier.size {
            0 => true,
            size if size > now.size => false,
            size => self.span_hash(&SpanHasher::new(&(0..size))).await? == Some(earlier.hash),
        })
    }

    /// Checks that the log begins with all that this node has signed for before.
    pub(super) async fn check_signed(&self) -> Result<Option<TreeHead>, SumDbError> {
        let note = match fs::read_to_string(&self.inner.signed_file) {
            Ok(note) => note,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // One of another key says nothing about this log.
        let Ok(text) = self.inner.signer.verifier().open(&note) else {
            return Ok(None);
        };
        let Ok(signed) = TreeHead::parse(text) else {
            return Ok(None);
        };
        let now = self.head().await?;
        let holds = self.begins_with(&now, &signed).await?;
        Ok((!holds).then_some(signed))
    }
}

/// Written beside and renamed, so that a crash leaves the old one or the new one.
fn keep(path: &Path, note: &str) -> io::Result<()> {
    let beside = path.with_added_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(note.as_bytes())?;
    file.sync_all()?;
    fs::rename(beside, path)?;
    path.parent()
        .map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
