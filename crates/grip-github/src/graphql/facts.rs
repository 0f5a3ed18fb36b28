//! Facts about a repository, as far as a list of them is chosen by these.

use serde::Deserialize;
use serde_json::json;

use crate::{GitHub, error::GitHubError, name::RepoName};

/// The fields of [`Written`].
pub(super) const FIELDS: &str = "nameWithOwner isPrivate visibility primaryLanguage{name} \
    root:object(expression:\"HEAD:go.mod\"){__typename}";

/// What is said of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryFacts {
    /// The name as it is now.
    pub full_name: RepoName,
    /// Whether not everybody may see it; so for internal ones.
    pub private: bool,
    /// Whether all members of the enterprise may see it.
    pub internal: bool,
    /// The language most of it is in.
    pub language: Option<String>,
    /// Whether its default branch has a `go.mod` at the root; none where that was not asked.
    pub has_go_mod: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Written {
    name_with_owner: String,
    is_private: bool,
    visibility: Option<String>,
    primary_language: Option<Language>,
    root: Option<Object>,
}

#[derive(Deserialize)]
struct Language {
    name: String,
}

#[derive(Deserialize)]
struct Object {
    #[serde(rename = "__typename")]
    kind: String,
}

impl GitHub {
    /// What is said of a repository, by its present name alone.
    pub async fn repository_facts(&self, repo: &RepoName) -> Result<RepositoryFacts, GitHubError> {
        #[derive(Deserialize)]
        struct Data {
            repository: Option<Written>,
        }
        let text = format!(
            "query Repository($owner:String!,$name:String!){{\
             repository(owner:$owner,name:$name,followRenames:false){{{FIELDS}}}\
             rateLimit{{cost remaining}}}}"
        );
        let variables = json!({ "owner": repo.owner().as_str(), "name": repo.name() });
        let data: Data = self.query("Repository", &text, variables).await?;
        let found = data.repository.ok_or_else(not_there)?;
        let found = RepositoryFacts::try_from(found)?;
        self.inner.recent.note(repo);
        Ok(found)
    }
}

/// A repository that is null without an error.
pub(super) fn not_there() -> GitHubError {
    GitHubError::NotFound {
        message: String::new(),
    }
}

impl TryFrom<Written> for RepositoryFacts {
    type Error = GitHubError;

    fn try_from(written: Written) -> Result<Self, GitHubError> {
        let name = RepoName::parse(&written.name_with_owner);
        let visibility = written.visibility.unwrap_or_default();
        Ok(Self {
            full_name: name.map_err(|error| GitHubError::malformed(error.to_string()))?,
            private: written.is_private,
            internal: visibility.eq_ignore_ascii_case("internal"),
            language: written.primary_language.map(|language| language.name),
            has_go_mod: Some(written.root.is_some_and(|root| root.kind == "Blob")),
        })
    }
}
