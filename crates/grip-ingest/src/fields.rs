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

const fn field(column: &'static str, pointer: &'static str, kind: Kind) -> Field {
    Field {
        column,
        pointer,
        kind,
    }
}

/// A push, in the words of the lists of events.
pub const EVENT: &[Field] = &[
    field("actor_id", "/actor/id", Kind::MaybeId),
    field("actor_login", "/actor/login", Kind::Text),
    field("repository_id", "/repo/id", Kind::Id),
    field("repository_name", "/repo/name", Kind::Text),
    field("push_id", "/payload/push_id", Kind::MaybeId),
    field("ref", "/payload/ref", Kind::Text),
    field("head", "/payload/head", Kind::Text),
    field("before", "/payload/before", Kind::Text),
    field("github_created_at", "/created_at", Kind::Time),
];

/// The same columns, in the words of a webhook, which names no event and no number of the push.
pub const DELIVERY: &[Field] = &[
    field("actor_id", "/sender/id", Kind::MaybeId),
    field("actor_login", "/sender/login", Kind::Text),
    field("repository_id", "/repository/id", Kind::Id),
    field("repository_name", "/repository/full_name", Kind::Text),
    field("push_id", "/push_id", Kind::MaybeId),
    field("ref", "/ref", Kind::Text),
    field("head", "/after", Kind::Text),
    field("before", "/before", Kind::Text),
    field("github_created_at", "/repository/pushed_at", Kind::Time),
];

/// A person, in the words of `/users/…`.
pub const USER: &[Field] = &[
    field("id", "/id", Kind::Id),
    field("login", "/login", Kind::Text),
    field("node_id", "/node_id", Kind::Text),
    field("avatar_url", "/avatar_url", Kind::Text),
    field("gravatar_id", "/gravatar_id", Kind::Text),
    field("url", "/url", Kind::Text),
    field("html_url", "/html_url", Kind::Text),
    field("followers_url", "/followers_url", Kind::Text),
    field("following_url", "/following_url", Kind::Text),
    field("gists_url", "/gists_url", Kind::Text),
    field("starred_url", "/starred_url", Kind::Text),
    field("subscriptions_url", "/subscriptions_url", Kind::Text),
    field("organizations_url", "/organizations_url", Kind::Text),
    field("repos_url", "/repos_url", Kind::Text),
    field("events_url", "/events_url", Kind::Text),
    field("received_events_url", "/received_events_url", Kind::Text),
    field("type", "/type", Kind::Text),
    field("user_view_type", "/user_view_type", Kind::Text),
    field("site_admin", "/site_admin", Kind::Flag),
    field("name", "/name", Kind::Text),
    field("company", "/company", Kind::Text),
    field("blog", "/blog", Kind::Text),
    field("location", "/location", Kind::Text),
    field("email", "/email", Kind::Text),
    field("notification_email", "/notification_email", Kind::Text),
    field("hireable", "/hireable", Kind::Flag),
    field("bio", "/bio", Kind::Text),
    field("twitter_username", "/twitter_username", Kind::Text),
    field("public_repos", "/public_repos", Kind::Int),
    field("public_gists", "/public_gists", Kind::Int),
    field("followers", "/followers", Kind::Int),
    field("following", "/following", Kind::Int),
    field("github_created_at", "/created_at", Kind::Time),
    field("github_updated_at", "/updated_at", Kind::Time),
];

/// A repository, in the words of `/repos/…`.
pub const REPOSITORY: &[Field] = &[
    field("id", "/id", Kind::Id),
    field("node_id", "/node_id", Kind::Text),
    field("name", "/name", Kind::Text),
    field("full_name", "/full_name", Kind::Text),
    field("owner_id", "/owner/id", Kind::Int),
    field("organization_id", "/organization/id", Kind::Int),
    field("parent_id", "/parent/id", Kind::Int),
    field("source_id", "/source/id", Kind::Int),
    field(
        "template_repository_id",
        "/template_repository/id",
        Kind::Int,
    ),
    field("private", "/private", Kind::Flag),
    field("visibility", "/visibility", Kind::Text),
    field("archived", "/archived", Kind::Flag),
    field("disabled", "/disabled", Kind::Flag),
    field("fork", "/fork", Kind::Flag),
    field("is_template", "/is_template", Kind::Flag),
    field("description", "/description", Kind::Text),
    field("homepage", "/homepage", Kind::Text),
    field("language", "/language", Kind::Text),
    field("topics", "/topics", Kind::Json),
    field("stargazers_count", "/stargazers_count", Kind::Int),
    field("watchers_count", "/watchers_count", Kind::Int),
    field("forks_count", "/forks_count", Kind::Int),
    field("open_issues_count", "/open_issues_count", Kind::Int),
    field("subscribers_count", "/subscribers_count", Kind::Int),
    field("network_count", "/network_count", Kind::Int),
    field("stargazers", "/stargazers", Kind::Int),
    field("watchers", "/watchers", Kind::Int),
    field("forks", "/forks", Kind::Int),
    field("open_issues", "/open_issues", Kind::Int),
    field("size", "/size", Kind::Int),
    field("has_issues", "/has_issues", Kind::Flag),
    field("has_projects", "/has_projects", Kind::Flag),
    field("has_downloads", "/has_downloads", Kind::Flag),
    field("has_wiki", "/has_wiki", Kind::Flag),
    field("has_pages", "/has_pages", Kind::Flag),
    field("has_discussions", "/has_discussions", Kind::Flag),
    field("allow_forking", "/allow_forking", Kind::Flag),
    field("allow_squash_merge", "/allow_squash_merge", Kind::Flag),
    field("allow_merge_commit", "/allow_merge_commit", Kind::Flag),
    field("allow_rebase_merge", "/allow_rebase_merge", Kind::Flag),
    field("allow_auto_merge", "/allow_auto_merge", Kind::Flag),
    field("allow_update_branch", "/allow_update_branch", Kind::Flag),
    field(
        "delete_branch_on_merge",
        "/delete_branch_on_merge",
        Kind::Flag,
    ),
    field(
        "web_commit_signoff_required",
        "/web_commit_signoff_required",
        Kind::Flag,
    ),
    field("license_key", "/license/key", Kind::Text),
    field("license_name", "/license/name", Kind::Text),
    field("license_spdx_id", "/license/spdx_id", Kind::Text),
    field("license_url", "/license/url", Kind::Text),
    field("license_node_id", "/license/node_id", Kind::Text),
    field("html_url", "/html_url", Kind::Text),
    field("url", "/url", Kind::Text),
    field("git_url", "/git_url", Kind::Text),
    field("ssh_url", "/ssh_url", Kind::Text),
    field("clone_url", "/clone_url", Kind::Text),
    field("svn_url", "/svn_url", Kind::Text),
    field("mirror_url", "/mirror_url", Kind::Text),
    field("archive_url", "/archive_url", Kind::Text),
    field("assignees_url", "/assignees_url", Kind::Text),
    field("blobs_url", "/blobs_url", Kind::Text),
    field("branches_url", "/branches_url", Kind::Text),
    field("collaborators_url", "/collaborators_url", Kind::Text),
    field("comments_url", "/comments_url", Kind::Text),
    field("commits_url", "/commits_url", Kind::Text),
    field("compare_url", "/compare_url", Kind::Text),
    field("contents_url", "/contents_url", Kind::Text),
    field("contributors_url", "/contributors_url", Kind::Text),
    field("deployments_url", "/deployments_url", Kind::Text),
    field("downloads_url", "/downloads_url", Kind::Text),
    field("events_url", "/events_url", Kind::Text),
    field("forks_url", "/forks_url", Kind::Text),
    field("git_commits_url", "/git_commits_url", Kind::Text),
    field("git_refs_url", "/git_refs_url", Kind::Text),
    field("git_tags_url", "/git_tags_url", Kind::Text),
    field("hooks_url", "/hooks_url", Kind::Text),
    field("issue_comment_url", "/issue_comment_url", Kind::Text),
    field("issue_events_url", "/issue_events_url", Kind::Text),
    field("issues_url", "/issues_url", Kind::Text),
    field("keys_url", "/keys_url", Kind::Text),
    field("labels_url", "/labels_url", Kind::Text),
    field("languages_url", "/languages_url", Kind::Text),
    field("merges_url", "/merges_url", Kind::Text),
    field("milestones_url", "/milestones_url", Kind::Text),
    field("notifications_url", "/notifications_url", Kind::Text),
    field("pulls_url", "/pulls_url", Kind::Text),
    field("releases_url", "/releases_url", Kind::Text),
    field("stargazers_url", "/stargazers_url", Kind::Text),
    field("statuses_url", "/statuses_url", Kind::Text),
    field("subscribers_url", "/subscribers_url", Kind::Text),
    field("subscription_url", "/subscription_url", Kind::Text),
    field("tags_url", "/tags_url", Kind::Text),
    field("teams_url", "/teams_url", Kind::Text),
    field("trees_url", "/trees_url", Kind::Text),
    field("default_branch", "/default_branch", Kind::Text),
    field("pushed_at", "/pushed_at", Kind::Time),
    field("github_created_at", "/created_at", Kind::Time),
    field("github_updated_at", "/updated_at", Kind::Time),
];
