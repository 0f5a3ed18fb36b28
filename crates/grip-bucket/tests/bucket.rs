//! Stores that are opened, and those that pass the check or do not.

use std::{fmt, sync::Arc};

use futures_util::stream::BoxStream;
use grip_bucket::{CheckError, OpenError, check, in_words, open};
use grip_testkit::{ReservedPort, S3Fault, S3Server};
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt as _, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    aws::AmazonS3Builder, memory::InMemory, path::Path,
};

#[test]
fn a_store_is_a_directory_or_a_bucket() {
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("a/b");
    assert!(open(new.to_str().unwrap()).is_ok());
    assert!(new.is_dir());
    for place in ["gs://bucket", "https://bucket.example/x", "file:///tmp"] {
        let refused = open(place).err().unwrap();
        assert!(matches!(refused, OpenError::Scheme { .. }), "{place}");
    }
    std::fs::write(dir.path().join("file"), "").unwrap();
    let file = dir.path().join("file/objects");
    let error = open(file.to_str().unwrap()).err().unwrap();
    assert!(matches!(error, OpenError::Directory { .. }), "{error}");
}

/// What a store does instead of what it says.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// Every create-only put succeeds.
    Overwrites,
    /// A put that succeeded is not there.
    Forgets,
    /// Every create-only put finds the name taken.
    TakesNone,
    /// It has no create-only puts.
    Refuses,
}

/// A store in memory that lies about create-only puts.
#[derive(Debug)]
struct Liar {
    store: InMemory,
    lie: Lie,
}

impl fmt::Display for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a store that {:?}", self.lie)
    }
}

#[async_trait::async_trait]
impl ObjectStore for Liar {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut options: PutOptions,
    ) -> Result<PutResult> {
        match self.lie {
            Lie::Overwrites => options.mode = PutMode::Overwrite,
            Lie::Forgets => {
                let put = self.store.put_opts(location, payload, options).await?;
                // The name stays taken; what was put under it goes.
                let nothing = PutPayload::default();
                self.store.put(location, nothing).await?;
                return Ok(put);
            }
            Lie::TakesNone => {
                return Err(object_store::Error::AlreadyExists {
                    path: location.to_string(),
                    source: "told to say so".into(),
                });
            }
            Lie::Refuses => {
                return Err(object_store::Error::NotImplemented {
                    operation: "create-only puts".to_owned(),
                    implementer: self.to_string(),
                });
            }
        }
        self.store.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.store.get_opts(location, options).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        self.store.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.store.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.store.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.store.copy_opts(from, to, options).await
    }
}

async fn refused(lie: Lie) -> CheckError {
    let store = InMemory::new();
    let checked = check(&Liar { store, lie }).await;
    checked.expect_err("a store that lies")
}

#[tokio::test]
async fn a_store_that_loses_a_race_is_refused() {
    check(&InMemory::new()).await.unwrap();
    let error = refused(Lie::Overwrites).await;
    assert!(
        matches!(error, CheckError::Overwritten { winners: 8 }),
        "{error}"
    );
    assert!(error.to_string().contains("one overwrote the other"));
    assert!(matches!(refused(Lie::Forgets).await, CheckError::Lost));
    assert!(matches!(
        refused(Lie::TakesNone).await,
        CheckError::NoneTaken
    ));
    assert!(matches!(refused(Lie::Refuses).await, CheckError::Store(_)));
}

#[tokio::test]
async fn a_directory_passes_and_nothing_is_left_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path().to_str().unwrap()).unwrap();
    check(&*store).await.unwrap();
    let left = std::fs::read_dir(dir.path().join("check")).unwrap();
    assert_eq!(left.count(), 0);
}

/// The bucket of a server at an endpoint.
fn bucket(server: &S3Server, endpoint: &str) -> Arc<dyn ObjectStore> {
    let (key, secret) = S3Server::KEYS;
    let place = server.place();
    let builder = AmazonS3Builder::new()
        .with_url(&place)
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_access_key_id(key)
        .with_secret_access_key(secret);
    let url = place.parse().expect("a URL");
    grip_bucket::s3(builder, &url).expect("a store")
}

/// The server's own create-only puts look first and write later. Behind a gateway that lets them pass
/// one after the other it is a store that can be used.
#[tokio::test]
async fn a_real_server_that_loses_a_race_is_refused() {
    let server = S3Server::start().await.unwrap();
    check(&*bucket(&server, &server.endpoint())).await.unwrap();
    let error = check(&*bucket(&server, &server.bare_endpoint())).await;
    let error = error.unwrap_err();
    assert!(
        matches!(error, CheckError::Overwritten { winners: 2.. }),
        "{error}"
    );
}

/// What is printed of the failure of one read at an endpoint, with this secret.
async fn said(server: &S3Server, endpoint: &str, secret: &str) -> String {
    let builder = AmazonS3Builder::new()
        .with_url(server.place())
        .with_endpoint(endpoint)
        .with_allow_http(true)
        .with_region("us-east-1")
        .with_access_key_id(S3Server::KEYS.0)
        .with_secret_access_key(secret);
    let url = server.place().parse().expect("a URL");
    let store = grip_bucket::s3(builder, &url).expect("a store");
    let read = store.get(&Path::from("pack")).await;
    // As it reaches the log: inside of errors of others.
    in_words(&std::io::Error::other(read.expect_err("it fails")))
}

#[tokio::test]
async fn failures_of_a_store_are_named_by_their_causes() {
    let server = S3Server::start().await.unwrap();
    let (endpoint, secret) = (server.endpoint(), S3Server::KEYS.1);
    let port = ReservedPort::new().unwrap();
    let (closed, tls) = (
        format!("http://127.0.0.1:{}", port.number()),
        endpoint.replace("http:", "https:"),
    );
    let (missing, denied, refused, unknown, tls) = tokio::join!(
        said(&server, &endpoint, secret),
        said(&server, &endpoint, "wrong"),
        said(&server, &closed, secret),
        said(&server, "http://store.invalid", secret),
        said(&server, &tls, secret),
    );
    assert_eq!(missing, "the object store has no packs/pack");
    assert!(
        denied.starts_with("the object store refuses the credentials"),
        "{denied}"
    );
    let away = "the object store cannot be reached: ";
    assert_eq!(refused, format!("{away}the connection was refused"));
    assert_eq!(unknown, format!("{away}its name cannot be resolved (DNS)"));
    assert_eq!(tls, format!("{away}the TLS handshake failed"));
    server.fault(Some(S3Fault::Unavailable));
    let unavailable = said(&server, &endpoint, secret).await;
    assert!(
        unavailable.starts_with("the object store failed: ") && unavailable.contains("503"),
        "{unavailable}"
    );
}
