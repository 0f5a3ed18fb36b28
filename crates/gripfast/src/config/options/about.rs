//! The relay information document (NIP-11).

use std::path::PathBuf;

use nostr::prelude::PublicKey;

use crate::config::{kinds::PrivateKey, option::options};

options! {
    /// What the relay information document says.
    About: "What it says of itself" {
        /// Name shown in the relay information document (NIP-11) and on the pages.
        relay_name: Option<String>, derived("`<domain> grasp relay`"), ngit, live, common,
            example("My grasp relay");
        /// Description shown beside the name.
        relay_description: String = "A git node that never shows a claim it cannot prove", ngit,
            live;
        /// How to reach the operator, such as `mailto:…`.
        relay_contact: Option<String>, live, example("mailto:operator@example.com");
        /// URL of an image for the node.
        relay_icon: Option<String>, derived("our own"), live,
            example("https://example.com/icon.png");
        /// Public key of the operator, shown in the relay information document.
        owner_npub: Option<PublicKey>, derived("the key of `relay_owner_nsec`"), ngit, live,
            example("npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d");
        /// Private key of the relay. Prefer `relay_owner_nsec_file` or a systemd credential.
        relay_owner_nsec: Option<PrivateKey>,
            derived("the systemd credential `relay_owner_nsec`, else the file `.relay-owner.nsec`, where there is one"),
            ngit;
        /// File that holds the private key of the relay.
        relay_owner_nsec_file: Option<PathBuf>, ngit, example("/etc/gripfast/relay.nsec");
    }
}
