//! The mapping of GitHub's JSON to columns: the one list of it.
//!
//! Who writes, who reads, who extracts again and the test that nothing is left out all go by it.

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// GitHub's own number: a positive integer, always there.
    Id,
    /// The same, where there is one.
    MaybeId,
    /// An integer.
    Int,
    /// True or false, kept as 1 or 0.
    Flag,
    Text,
    /// A moment, kept in milliseconds since 1970.
    Time,
    /// Whatever it is, kept as JSON.
    Json,
}

/// One column and where its value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    pub column: &'static str,
    /// A JSON pointer.
    pub pointer: &'static str,
    pub kind: Kind,
}

/// Fields by kind, `column = "/pointer"`; a column without a pointer is named as in the JSON.
macro_rules! fields {
    ($($kind:ident: $($column:ident $(= $pointer:literal)?),+;)+) => {
        &[$($(Field {
            column: stringify!($column),
            pointer: fields!(@ $column $($pointer)?),
            kind: Kind::$kind,
        }),+),+]
    };
    (@ $column:ident) => { concat!("/", stringify!($column)) };
    (@ $column:ident $pointer:literal) => { $pointer };
}

/// A push, in the words of the lists of events.
pub const EVENT: &[Field] = fields! {
    MaybeId: actor_id = "/actor/id";
    Text: actor_login = "/actor/login";
    Id: repository_id = "/repo/id";
    Text: repository_name = "/repo/name";
    MaybeId: push_id = "/payload/push_id";
    Text: ref = "/payload/ref", head = "/payload/head", before = "/payload/before";
    Time: github_created_at = "/created_at";
};

/// The same columns, in the words of a webhook, which names no event and no number of the push.
pub const DELIVERY: &[Field] = fields! {
    MaybeId: actor_id = "/sender/id";
    Text: actor_login = "/sender/login";
    Id: repository_id = "/repository/id";
    Text: repository_name = "/repository/full_name";
    MaybeId: push_id;
    Text: ref, head = "/after", before;
    Time: github_created_at = "/repository/pushed_at";
};

/// A person, in the words of `/users/…`.
pub const USER: &[Field] = fields! {
    Id: id;
    Text: login, node_id, avatar_url, gravatar_id, url, html_url, followers_url, following_url,
        gists_url, starred_url, subscriptions_url, organizations_url, repos_url, events_url,
        received_events_url, type, user_view_type;
    Flag: site_admin;
    Text: name, company, blog, location, email, notification_email;
    Flag: hireable;
    Text: bio, twitter_username;
    Int: public_repos, public_gists, followers, following;
    Time: github_created_at = "/created_at", github_updated_at = "/updated_at";
};

/// A repository, in the words of `/repos/…`.
pub const REPOSITORY: &[Field] = fields! {
    Id: id;
    Text: node_id, name, full_name;
    Int: owner_id = "/owner/id", organization_id = "/organization/id", parent_id = "/parent/id",
        source_id = "/source/id", template_repository_id = "/template_repository/id";
    Flag: private;
    Text: visibility;
    Flag: archived, disabled, fork, is_template;
    Text: description, homepage, language;
    Json: topics;
    Int: stargazers_count, watchers_count, forks_count, open_issues_count, subscribers_count,
        network_count, stargazers, watchers, forks, open_issues, size;
    Flag: has_issues, has_projects, has_downloads, has_wiki, has_pages, has_discussions,
        allow_forking, allow_squash_merge, allow_merge_commit, allow_rebase_merge, allow_auto_merge,
        allow_update_branch, delete_branch_on_merge, web_commit_signoff_required;
    Text: license_key = "/license/key", license_name = "/license/name",
        license_spdx_id = "/license/spdx_id", license_url = "/license/url",
        license_node_id = "/license/node_id", html_url, url, git_url, ssh_url, clone_url, svn_url,
        mirror_url, archive_url, assignees_url, blobs_url, branches_url, collaborators_url,
        comments_url, commits_url, compare_url, contents_url, contributors_url, deployments_url,
        downloads_url, events_url, forks_url, git_commits_url, git_refs_url, git_tags_url,
        hooks_url, issue_comment_url, issue_events_url, issues_url, keys_url, labels_url,
        languages_url, merges_url, milestones_url, notifications_url, pulls_url, releases_url,
        stargazers_url, statuses_url, subscribers_url, subscription_url, tags_url, teams_url,
        trees_url, default_branch;
    Time: pushed_at, github_created_at = "/created_at", github_updated_at = "/updated_at";
};
