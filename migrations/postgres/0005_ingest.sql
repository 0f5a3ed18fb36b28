-- What happens on GitHub. Times are milliseconds since 1970, flags are 0 or 1.

-- Pushes, each once.
CREATE TABLE push_events (
    -- GitHub's id of the event; "delivery " and its id for what a webhook brought.
    id TEXT PRIMARY KEY,
    actor_id BIGINT,
    -- The names as they were at that time.
    actor_login TEXT,
    repository_id BIGINT NOT NULL,
    repository_name TEXT,
    push_id BIGINT,
    ref TEXT NOT NULL,
    head TEXT NOT NULL,
    "before" TEXT,
    github_created_at BIGINT,
    -- As GitHub wrote it.
    raw TEXT NOT NULL,
    -- Who told us first.
    source TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX push_events_created ON push_events (created_at, id);
CREATE INDEX push_events_repository ON push_events (repository_id, created_at, id);
CREATE INDEX push_events_actor ON push_events (actor_id, created_at, id);

-- People and organisations, in the words of GitHub.
CREATE TABLE github_users (
    id BIGINT PRIMARY KEY,
    login TEXT,
    node_id TEXT,
    avatar_url TEXT,
    gravatar_id TEXT,
    url TEXT,
    html_url TEXT,
    followers_url TEXT,
    following_url TEXT,
    gists_url TEXT,
    starred_url TEXT,
    subscriptions_url TEXT,
    organizations_url TEXT,
    repos_url TEXT,
    events_url TEXT,
    received_events_url TEXT,
    "type" TEXT,
    user_view_type TEXT,
    site_admin BIGINT,
    name TEXT,
    company TEXT,
    blog TEXT,
    location TEXT,
    email TEXT,
    notification_email TEXT,
    hireable BIGINT,
    bio TEXT,
    twitter_username TEXT,
    public_repos BIGINT,
    public_gists BIGINT,
    followers BIGINT,
    "following" BIGINT,
    github_created_at BIGINT,
    github_updated_at BIGINT,
    raw TEXT NOT NULL,
    -- Columns that are empty because the value was of another kind than it should be.
    unfit TEXT,
    etag TEXT,
    -- When GitHub was asked last.
    fetched_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX github_users_login ON github_users (lower(login));
CREATE INDEX github_users_fetched ON github_users (fetched_at);

-- Repositories, in the words of GitHub.
CREATE TABLE github_repositories (
    id BIGINT PRIMARY KEY,
    node_id TEXT,
    name TEXT,
    full_name TEXT,
    owner_id BIGINT,
    organization_id BIGINT,
    parent_id BIGINT,
    source_id BIGINT,
    template_repository_id BIGINT,
    "private" BIGINT,
    visibility TEXT,
    archived BIGINT,
    disabled BIGINT,
    fork BIGINT,
    is_template BIGINT,
    description TEXT,
    homepage TEXT,
    language TEXT,
    topics TEXT,
    stargazers_count BIGINT,
    watchers_count BIGINT,
    forks_count BIGINT,
    open_issues_count BIGINT,
    subscribers_count BIGINT,
    network_count BIGINT,
    stargazers BIGINT,
    watchers BIGINT,
    forks BIGINT,
    open_issues BIGINT,
    size BIGINT,
    has_issues BIGINT,
    has_projects BIGINT,
    has_downloads BIGINT,
    has_wiki BIGINT,
    has_pages BIGINT,
    has_discussions BIGINT,
    allow_forking BIGINT,
    allow_squash_merge BIGINT,
    allow_merge_commit BIGINT,
    allow_rebase_merge BIGINT,
    allow_auto_merge BIGINT,
    allow_update_branch BIGINT,
    delete_branch_on_merge BIGINT,
    web_commit_signoff_required BIGINT,
    license_key TEXT,
    license_name TEXT,
    license_spdx_id TEXT,
    license_url TEXT,
    license_node_id TEXT,
    html_url TEXT,
    url TEXT,
    git_url TEXT,
    ssh_url TEXT,
    clone_url TEXT,
    svn_url TEXT,
    mirror_url TEXT,
    archive_url TEXT,
    assignees_url TEXT,
    blobs_url TEXT,
    branches_url TEXT,
    collaborators_url TEXT,
    comments_url TEXT,
    commits_url TEXT,
    compare_url TEXT,
    contents_url TEXT,
    contributors_url TEXT,
    deployments_url TEXT,
    downloads_url TEXT,
    events_url TEXT,
    forks_url TEXT,
    git_commits_url TEXT,
    git_refs_url TEXT,
    git_tags_url TEXT,
    hooks_url TEXT,
    issue_comment_url TEXT,
    issue_events_url TEXT,
    issues_url TEXT,
    keys_url TEXT,
    labels_url TEXT,
    languages_url TEXT,
    merges_url TEXT,
    milestones_url TEXT,
    notifications_url TEXT,
    pulls_url TEXT,
    releases_url TEXT,
    stargazers_url TEXT,
    statuses_url TEXT,
    subscribers_url TEXT,
    subscription_url TEXT,
    tags_url TEXT,
    teams_url TEXT,
    trees_url TEXT,
    default_branch TEXT,
    pushed_at BIGINT,
    github_created_at BIGINT,
    github_updated_at BIGINT,
    raw TEXT NOT NULL,
    unfit TEXT,
    etag TEXT,
    fetched_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX github_repositories_name ON github_repositories (lower(full_name));
CREATE INDEX github_repositories_fetched ON github_repositories (fetched_at);

-- The lists of events that are read again and again.
CREATE TABLE ingest_sources (
    source TEXT PRIMARY KEY,
    -- The state of the list when all of it was read last.
    etag TEXT,
    poll_interval_ms BIGINT,
    -- The ids of the latest events that were seen then, the latest first, as a JSON array.
    recent TEXT NOT NULL DEFAULT '[]',
    newest_id TEXT,
    newest_at BIGINT,
    -- When it was last asked with success, and when there was something new.
    polled_at BIGINT,
    changed_at BIGINT,
    polls BIGINT NOT NULL DEFAULT 0,
    gaps BIGINT NOT NULL DEFAULT 0
);

-- How many events of each type came from where.
CREATE TABLE ingest_counts (
    source TEXT NOT NULL,
    type TEXT NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (source, type)
);

-- Holes: something may have happened after one event and before another that we did not see.
CREATE TABLE ingest_gaps (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source TEXT NOT NULL,
    after_id TEXT,
    after_at BIGINT,
    before_id TEXT,
    before_at BIGINT,
    found_at BIGINT NOT NULL,
    -- When and by what it was filled.
    closed_at BIGINT,
    closed_by TEXT
);
CREATE INDEX ingest_gaps_open ON ingest_gaps (id) WHERE closed_at IS NULL;

-- What came and cannot be read.
CREATE TABLE ingest_rejected (
    -- SHA-256 of what came, so that the same is kept once.
    digest TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    reason TEXT NOT NULL,
    -- The beginning of it where it was long.
    raw TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    times BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL
);
CREATE INDEX ingest_rejected_last ON ingest_rejected (last_at);

-- Files of old events, and how far they were read.
CREATE TABLE ingest_files (
    -- Says the same file, whatever it is called.
    fingerprint TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    -- Lines taken in so far.
    lines BIGINT NOT NULL DEFAULT 0,
    events BIGINT NOT NULL DEFAULT 0,
    rejected BIGINT NOT NULL DEFAULT 0,
    -- The moments of the first and the last event in it.
    first_at BIGINT,
    last_at BIGINT,
    began_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    finished_at BIGINT
);

-- Where long work over all rows goes on.
CREATE TABLE ingest_work (
    work TEXT PRIMARY KEY,
    place TEXT NOT NULL,
    done BIGINT NOT NULL,
    failed BIGINT NOT NULL,
    began_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    finished_at BIGINT
);

-- Pictures of people; the bytes are in an object store under their digest.
CREATE TABLE avatars (
    user_id BIGINT PRIMARY KEY,
    url TEXT NOT NULL,
    digest TEXT,
    kind TEXT,
    bytes BIGINT,
    etag TEXT,
    -- Why there is none.
    why TEXT,
    fetched_at BIGINT NOT NULL
);
CREATE INDEX avatars_digest ON avatars (digest);
