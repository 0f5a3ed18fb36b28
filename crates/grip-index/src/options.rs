//! Options of the index.

use std::time::Duration;

/// How the index works; every field has a default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long a worker may hold a piece of work without a sign of life. Default: 5 minutes.
    pub indexing_ttl: Duration,
    /// How long after a turn a source or a repository has its next, at least. Default: a day.
    pub re_indexing_period: Duration,
    /// Pieces of work that are taken at a time. Default: 4.
    pub number_of_items_to_take: usize,
    /// Repositories that are worked on at a time. Each asks its source one thing after the other,
    /// so this is also how many calls are under way. Default: 4.
    pub workers: usize,
    /// Tags of one repository; one that has more is refused. Default: 200,000.
    pub max_tags: usize,
    /// Repositories of one source; a listing that finds more is refused. Default: 4,000,000.
    pub max_repos: usize,
    /// How long changes are kept for followers. Default: 90 days.
    pub keep_changes: Duration,
    /// Between two pieces of work that wait for the same limit, so that not all of them come back
    /// at its end. Default: 50 ms.
    pub spacing: Duration,
    /// How often workers look for work when they hear of none. Default: 15 s.
    pub poll: Duration,
    /// What becomes of the repositories of a source that no instance has in its settings any more.
    /// Default: they are kept.
    pub left_sources: LeftSources,
}

/// What becomes of what only a source listed that has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeftSources {
    #[default]
    Keep,
    /// Out of the feed, and back in it when the source comes back.
    Hide,
    Remove,
}

impl LeftSources {
    pub const ALL: [Self; 3] = [Self::Keep, Self::Hide, Self::Remove];

    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Hide => "hide",
            Self::Remove => "remove",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

impl Default for Options {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            indexing_ttl: Duration::from_secs(5 * 60),
            re_indexing_period: DAY,
            number_of_items_to_take: 4,
            workers: 4,
            max_tags: 200_000,
            max_repos: 4_000_000,
            keep_changes: DAY * 90,
            spacing: Duration::from_millis(50),
            poll: Duration::from_secs(15),
            left_sources: LeftSources::default(),
        }
    }
}
