//! The index of modules and tags: sources, jobs, feed.
