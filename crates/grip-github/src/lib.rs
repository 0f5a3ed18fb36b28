//! The GitHub API: one gateway, typed errors, pages.
