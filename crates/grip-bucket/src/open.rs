//! Stores by the place that a setting names.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use object_store::{
    ClientConfigKey, ObjectStore, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey},
    local::LocalFileSystem,
    path::Path,
    prefix::PrefixStore,
};
use url::Url;

/// Attempts after the first that a server got which failed or did not answer. With the pauses between
/// them they take some seconds: somebody waits for the result.
const MAX_RETRIES: usize = 5;
/// After so long nothing is tried again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(15);

/// Why there is no store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("the directory {} cannot be made", .path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("an object store is a directory or s3://bucket/prefix, not {scheme}://")]
    Scheme { scheme: String },
    #[error("the object store cannot be opened")]
    Store(#[from] object_store::Error),
}

/// Opens the store at a directory, which is made if need be, or at `s3://bucket/prefix`. Blocking.
///
/// Keys, region and another endpoint of S3 come from the environment, by the names that all programs
/// use (`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`); an endpoint
/// without TLS needs `AWS_ALLOW_HTTP`.
pub fn open(place: &str) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let url = Url::parse(place).ok().filter(|_| place.contains("://"));
    match url {
        Some(url) if url.scheme() == "s3" => {
            s3(AmazonS3Builder::from_env().with_url(url.as_str()), &url)
        }
        Some(url) => Err(OpenError::Scheme {
            scheme: url.scheme().to_owned(),
        }),
        None => directory(PathBuf::from(place)),
    }
}

fn directory(path: PathBuf) -> Result<Arc<dyn ObjectStore>, OpenError> {
    if let Err(source) = std::fs::create_dir_all(&path) {
        return Err(OpenError::Directory { path, source });
    }
    let store = LocalFileSystem::new_with_prefix(path)?.with_fsync(true);
    Ok(Arc::new(store))
}

/// Opens the bucket that `builder` has the keys of, below the path of `url`.
pub fn s3(builder: AmazonS3Builder, url: &Url) -> Result<Arc<dyn ObjectStore>, OpenError> {
    // Without one its TLS panics. Who has chosen another keeps it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let prefix = Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
    let retry = RetryConfig {
        max_retries: MAX_RETRIES,
        retry_timeout: RETRY_TIMEOUT,
        ..RetryConfig::default()
    };
    // The crate's own bound is for a whole download, however large it is.
    let builder = builder
        .with_config(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout), "1 day")
        .with_config(
            AmazonS3ConfigKey::Client(ClientConfigKey::ReadTimeout),
            "20 seconds",
        );
    let store = builder.with_retry(retry).build()?;
    Ok(Arc::new(PrefixStore::new(store, prefix)))
}
