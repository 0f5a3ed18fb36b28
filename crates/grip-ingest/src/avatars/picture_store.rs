//! The avatars' object store: a directory or an S3 bucket, each picture once under its digest.

use std::sync::Arc;

use grip_bucket::OpenError;
use object_store::{ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, path::Path};

use super::picture::Picture;

/// A store of pictures. Cheap to clone.
#[derive(Clone)]
pub struct PictureStore {
    store: Arc<dyn ObjectStore>,
}

impl PictureStore {
    /// Opens the store at a directory, which is made if need be, or at `s3://bucket/prefix`; see
    /// [`grip_bucket::open`].
    pub fn open(place: &str) -> Result<Self, OpenError> {
        let store = grip_bucket::open(place)?;
        Ok(Self { store })
    }

    #[cfg(test)]
    pub(super) fn at(store: Arc<dyn ObjectStore>) -> Self {
        Self { store }
    }

    /// Puts a picture there, unless it is.
    pub async fn put(&self, picture: &Picture) -> Result<(), object_store::Error> {
        let options = PutOptions::from(PutMode::Create);
        let payload = picture.bytes.clone().into();
        let place = place(&picture.digest);
        match self.store.put_opts(&place, payload, options).await {
            Ok(_) | Err(object_store::Error::AlreadyExists { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The picture of a digest; none if it is not there, or is not what it was.
    pub async fn get(&self, digest: &str) -> Result<Option<Picture>, object_store::Error> {
        let found = match self.store.get(&place(digest)).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        if found.meta.size > super::MAX_BYTES as u64 {
            return Ok(None);
        }
        let picture = Picture::new(found.bytes().await?).ok();
        Ok(picture.filter(|picture| picture.digest == digest))
    }

    /// Removes a picture, if it is there.
    pub async fn remove(&self, digest: &str) -> Result<(), object_store::Error> {
        match self.store.delete(&place(digest)).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// A directory has few hundred others in it, and each of them a share of the pictures.
fn place(digest: &str) -> Path {
    let first = digest.get(..2).unwrap_or_default();
    Path::from(format!("avatars/{first}/{digest}"))
}
