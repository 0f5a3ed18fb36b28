//! The archive (GRASP-05) and hosted pull requests (GRASP-06).

use grip_grasp::Selection;

use crate::config::{kinds::List, option::options};

options! {
    /// Archive and hosted pull requests.
    Archive: "Archive and pull request hosting"
    no effect yet {
        /// Accept every announcement, whether it lists this node or not (GRASP-05).
        archive_all: bool = "false", ngit;
        /// Repositories to mirror though they do not list this node: `npub`, `npub/identifier` or
        /// `identifier`.
        archive_whitelist: Selection, ngit;
        /// Mirror all repositories of these servers.
        archive_grasp_services: List, ngit;
        /// Take nothing but what the archive settings name.
        archive_read_only: Option<bool>, derived("true where an archive setting is on"), ngit;
        /// Host pull requests of contributors below `/prs/` (GRASP-06).
        grasp06_enable: bool = "false", ngit;
    }
}
