//! Repositories of an owner, a hundred at a time.

use serde::Deserialize;
use serde_json::json;

use super::{
    PER_PAGE, PageInfo,
    facts::{FIELDS, Written, not_there},
};
use crate::{GitHub, RepositoryFacts, error::GitHubError, name::Owner};

#[derive(Deserialize)]
struct Data {
    owner: Option<Of>,
}

#[derive(Deserialize)]
struct Of {
    repositories: Connection,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Connection {
    page_info: PageInfo,
    nodes: Vec<Option<Written>>,
}

impl GitHub {
    /// A page of the repositories of an owner, the oldest first, and where the next begins. Not for
    /// those of a whole host.
    pub async fn owner_repositories(
        &self,
        owner: &Owner,
        from: Option<&str>,
    ) -> Result<(Vec<RepositoryFacts>, Option<String>), GitHubError> {
        let (kind, login) = match owner {
            Owner::Org(login) => ("organization", login),
            Owner::User(login) => ("user", login),
            Owner::Everything => return Err(not_there()),
        };
        let text = format!(
            "query Repositories($login:String!,$after:String){{owner:{kind}(login:$login){{\
             repositories(first:{PER_PAGE},after:$after,ownerAffiliations:[OWNER],\
             orderBy:{{field:CREATED_AT,direction:ASC}}){{\
             pageInfo{{hasNextPage endCursor}}nodes{{{FIELDS}}}}}}}rateLimit{{cost remaining}}}}"
        );
        let variables = json!({ "login": login.as_str(), "after": from });
        let data: Data = self.query("Repositories", &text, variables).await?;
        let listed = data.owner.ok_or_else(not_there)?.repositories;
        let nodes = listed.nodes.into_iter().flatten();
        let found: Vec<_> = nodes
            .map(RepositoryFacts::try_from)
            .collect::<Result<_, _>>()?;
        let is_other = |repo: &&RepositoryFacts| !repo.full_name.owner().is_same(login);
        if let Some(other) = found.iter().find(is_other) {
            let other = &other.full_name;
            let what = format!("{other} among the repositories of {login}");
            return Err(GitHubError::malformed(what));
        }
        Ok((found, listed.page_info.next(from)?))
    }
}
