//! Tags with their dates, and with the `go.mod` of each.

use grip_types::Oid;
use serde::Deserialize;
use serde_json::json;

use super::{
    PER_PAGE, PageInfo,
    facts::{FIELDS, Written, not_there},
    files::{BLOB, Blob, FileAt},
    millis, oid,
};
use crate::{GitHub, RepositoryFacts, error::GitHubError, name::RepoName};

/// Tags of one question about which of them are there.
const NAMES_AT_ONCE: usize = 100;

/// A page of tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagList {
    pub repository: RepositoryFacts,
    /// Those that are at a commit.
    pub tags: Vec<DatedTag>,
    pub next: Option<String>,
}

/// A tag and when it was made. Nothing is checked about its name but that it is text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatedTag {
    pub name: String,
    /// The tag object, or the commit where there is none.
    pub object: Oid,
    pub commit: Oid,
    /// The date of the tag object, else that of the commit, in milliseconds since 1970.
    pub created_ms: i64,
    /// The `go.mod` at the root of the commit, where it was asked for.
    pub go_mod: Option<FileAt>,
}

#[derive(Deserialize)]
struct Data {
    repository: Option<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(flatten)]
    facts: Written,
    refs: Option<Connection>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Connection {
    page_info: PageInfo,
    nodes: Vec<Option<Ref>>,
}

#[derive(Deserialize)]
struct Ref {
    name: String,
    target: Option<Target>,
}

/// A commit, a tag object, or what is at neither.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    oid: String,
    committed_date: Option<String>,
    tagger: Option<Tagger>,
    target: Option<Box<Target>>,
    file: Option<Entry>,
}

#[derive(Deserialize)]
struct Tagger {
    date: Option<String>,
}

#[derive(Deserialize)]
struct Entry {
    object: Option<Blob>,
}

impl GitHub {
    /// A page of tags with their dates, and with the `go.mod` of each if `with_go_mods`. By the
    /// present name of the repository alone.
    pub async fn dated_tags(
        &self,
        repo: &RepoName,
        from: Option<&str>,
        with_go_mods: bool,
    ) -> Result<TagList, GitHubError> {
        let commit =
            "...on Commit{committedDate file(path:\"go.mod\")@include(if:$mods){object{...blob}}}";
        // A tag object may be at another one.
        let text = format!(
            "query Tags($owner:String!,$name:String!,$after:String,$mods:Boolean!){{\
             repository(owner:$owner,name:$name,followRenames:false){{{FIELDS} \
             refs(refPrefix:\"refs/tags/\",first:{PER_PAGE},after:$after,\
             orderBy:{{field:ALPHABETICAL,direction:ASC}}){{pageInfo{{hasNextPage endCursor}}\
             nodes{{name target{{oid {commit}...on Tag{{tagger{{date}}target{{oid {commit}\
             ...on Tag{{target{{oid {commit}}}}}}}}}}}}}}}}}rateLimit{{cost remaining}}}}{BLOB}"
        );
        let variables = json!({
            "owner": repo.owner().as_str(),
            "name": repo.name(),
            "after": from,
            "mods": with_go_mods,
        });
        let data: Data = self.query("Tags", &text, variables).await?;
        let listed = data.repository.ok_or_else(not_there)?;
        let repository = RepositoryFacts::try_from(listed.facts)?;
        self.inner.recent.note(repo);
        let Some(refs) = listed.refs else {
            return Ok(TagList {
                repository,
                tags: Vec::new(),
                next: None,
            });
        };
        let mut tags = Vec::new();
        for tag in refs.nodes.into_iter().flatten() {
            tags.extend(tag.dated(with_go_mods)?);
        }
        Ok(TagList {
            repository,
            tags,
            next: refs.page_info.next(from)?,
        })
    }

    /// Says of each of these tags whether it is there. No page can shift under this.
    pub async fn are_tags(
        &self,
        repo: &RepoName,
        names: &[String],
    ) -> Result<Vec<bool>, GitHubError> {
        #[derive(Deserialize)]
        struct Named {
            repository: Option<serde_json::Map<String, serde_json::Value>>,
        }
        let mut found = Vec::with_capacity(names.len());
        for some in names.chunks(NAMES_AT_ONCE) {
            let (mut declared, mut asked) = (String::new(), String::new());
            let mut variables = json!({ "owner": repo.owner().as_str(), "name": repo.name() });
            for (n, name) in some.iter().enumerate() {
                declared.push_str(&format!(",$t{n}:String!"));
                asked.push_str(&format!("t{n}:ref(qualifiedName:$t{n}){{name}}"));
                variables[format!("t{n}")] = format!("refs/tags/{name}").into();
            }
            let text = format!(
                "query TagNames($owner:String!,$name:String!{declared}){{\
                 repository(owner:$owner,name:$name,followRenames:false){{{asked}}}\
                 rateLimit{{cost remaining}}}}"
            );
            let data: Named = self.query("TagNames", &text, variables).await?;
            let refs = data.repository.ok_or_else(not_there)?;
            let is_there = |n: usize| refs.get(&format!("t{n}")).is_some_and(|it| !it.is_null());
            found.extend((0..some.len()).map(is_there));
        }
        Ok(found)
    }
}

impl Ref {
    /// None where it is at no commit.
    fn dated(self, with_go_mods: bool) -> Result<Option<DatedTag>, GitHubError> {
        let Some(target) = self.target else {
            return Ok(None);
        };
        let object = oid(&target.oid)?;
        let tagged = target
            .tagger
            .as_ref()
            .and_then(|tagger| tagger.date.as_deref());
        let tagged = tagged.map(millis).transpose()?;
        let mut commit = target;
        while commit.committed_date.is_none() {
            match commit.target {
                Some(inner) => commit = *inner,
                None => return Ok(None),
            }
        }
        let committed = commit.committed_date.as_deref().unwrap_or_default();
        let created_ms = match tagged {
            Some(at) => at,
            None => millis(committed)?,
        };
        let file = commit.file.and_then(|entry| entry.object);
        Ok(Some(DatedTag {
            name: self.name,
            object,
            commit: oid(&commit.oid)?,
            created_ms,
            go_mod: with_go_mods.then(|| FileAt::of(file)),
        }))
    }
}
