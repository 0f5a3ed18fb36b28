//! The avatars' object store: a directory or an S3 bucket, each picture once under its digest.

use std::{io, path::PathBuf, sync::Arc};

use object_store::{
    ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, aws::AmazonS3Builder,
    local::LocalFileSystem, path::Path, prefix::PrefixStore,
};
use url::Url;

use super::picture::Picture;

/// A store of pictures. Cheap to clone.
#[derive(Clone)]
pub struct PictureStore {
    store: Arc<dyn ObjectStore>,
}

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("the directory {path} for pictures cannot be made")]
    Directory {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("a store of pictures is a directory or s3://bucket/prefix, not {scheme}://")]
    Scheme { scheme: String },
    #[error("the store of pictures cannot be opened")]
    Store(#[from] object_store::Error),
}

impl PictureStore {
    /// Opens the store at a directory, which is made if need be, or at `s3://bucket/prefix`.
    ///
    /// Keys, region and another endpoint of S3 come from the environment, by the names that all
    /// programs use (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`,
    /// `AWS_ENDPOINT_URL`).
    pub fn open(place: &str) -> Result<Self, OpenError> {
        let url = Url::parse(place).ok().filter(|_| place.contains("://"));
        match url {
            Some(url) if url.scheme() == "s3" => {
                Self::s3(AmazonS3Builder::from_env().with_url(url.as_str()), &url)
            }
            Some(url) => Err(OpenError::Scheme {
                scheme: url.scheme().to_owned(),
            }),
            None => Self::directory(PathBuf::from(place)),
        }
    }

    fn directory(path: PathBuf) -> Result<Self, OpenError> {
        if let Err(source) = std::fs::create_dir_all(&path) {
            return Err(OpenError::Directory { path, source });
        }
        let store = LocalFileSystem::new_with_prefix(path)?.with_fsync(true);
        let store = Arc::new(store);
        Ok(Self { store })
    }

    pub(super) fn s3(builder: AmazonS3Builder, url: &Url) -> Result<Self, OpenError> {
        // Without one its TLS panics. Who has chosen another keeps it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let prefix = Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
        let store = PrefixStore::new(builder.build()?, prefix);
        let store = Arc::new(store);
        Ok(Self { store })
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
