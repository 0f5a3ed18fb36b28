//! The rules by which events and repositories are accepted.

use grip_grasp::Selection;
use grip_nostr::MaintainerRule;

use crate::config::{kinds::Authors, option::options};

options! {
    /// Rules of acceptance.
    Acceptance: "What it accepts" {
        /// Who counts as maintainer: everybody the owner's announcement leads to (`legacy`), or of
        /// those only who names a maintainer back (`reciprocal`).
        maintainer_rule: MaintainerRule = "legacy", live;
        /// Only these repositories are accepted: `npub`, `npub/identifier` or `identifier`.
        repository_whitelist: Selection, ngit, live;
        /// These repositories are refused, whatever the whitelists say: `npub`, `npub/identifier`
        /// or `identifier`.
        repository_blacklist: Selection, ngit, live;
        /// Events of these authors (npubs) are refused, before any other check.
        event_blacklist: Authors, ngit, live,
            example("npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d");
        /// Private repositories (GRASP-08) are not part of this version: the node refuses to start
        /// with it rather than serve to everybody.
        private_mode: bool = "false", ngit;
    }
}
