//! Files of commits, a hundred at a time.

use bytes::Bytes;
use grip_types::Oid;
use serde::Deserialize;
use serde_json::json;

use super::facts::not_there;
use crate::{GitHub, error::GitHubError, name::RepoName};

/// Most files that one query asks for.
pub const MAX_PLACES: usize = 100;

/// The fields of [`Blob`].
pub(super) const BLOB: &str = "fragment blob on Blob{byteSize isBinary isTruncated text}";

/// What is at a path of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAt {
    Absent,
    Text(Bytes),
    /// It is there, and a query does not show all of it: too long, or no text.
    NotShown,
}

/// A file as it is written; all fields are missing of what is no file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Blob {
    byte_size: Option<u64>,
    is_binary: Option<bool>,
    is_truncated: Option<bool>,
    text: Option<String>,
}

impl FileAt {
    pub(super) fn of(found: Option<Blob>) -> Self {
        // A directory of that name has no size.
        let Some((blob, size)) = found.and_then(|blob| blob.byte_size.map(|size| (blob, size)))
        else {
            return Self::Absent;
        };
        let is_whole = blob.is_truncated == Some(false) && blob.is_binary == Some(false);
        match blob.text {
            Some(text) if is_whole && text.len() as u64 == size => Self::Text(text.into()),
            _ => Self::NotShown,
        }
    }
}

impl GitHub {
    /// Files by commit and path, at most [`MAX_PLACES`], in the order they were asked in.
    pub async fn files(
        &self,
        repo: &RepoName,
        places: &[(Oid, String)],
    ) -> Result<Vec<FileAt>, GitHubError> {
        #[derive(Deserialize)]
        struct Data {
            repository: Option<serde_json::Map<String, serde_json::Value>>,
        }
        let (mut declared, mut asked) = (String::new(), String::new());
        let mut variables = json!({ "owner": repo.owner().as_str(), "name": repo.name() });
        for (n, (commit, path)) in places.iter().take(MAX_PLACES).enumerate() {
            declared.push_str(&format!(",$f{n}:String!"));
            asked.push_str(&format!("f{n}:object(expression:$f{n}){{...blob}}"));
            variables[format!("f{n}")] = format!("{}:{path}", commit.to_hex()).into();
        }
        let text = format!(
            "query Files($owner:String!,$name:String!{declared}){{\
             repository(owner:$owner,name:$name,followRenames:false){{{asked}}}\
             rateLimit{{cost remaining}}}}{BLOB}"
        );
        let data: Data = self.query("Files", &text, variables).await?;
        let mut files = data.repository.ok_or_else(not_there)?;
        let each = (0..places.len().min(MAX_PLACES)).map(|n| {
            let found = files.remove(&format!("f{n}"));
            let found = found.filter(|found| !found.is_null());
            let blob = found.map(serde_json::from_value::<Blob>).transpose();
            let blob = blob.map_err(|_| GitHubError::malformed("a file that is none"))?;
            Ok(FileAt::of(blob))
        });
        each.collect()
    }
}
