//! What cannot go together with leaving nothing behind.

use super::{Resolver, parse};
use crate::config::{DatabasePlace, Source};

/// Places on disk that are not used then.
const PLACES: [&str; 3] = ["data_dir", "git_data_path", "relay_data_path"];

impl Resolver<'_> {
    /// Whether nothing is kept; what would keep something elsewhere is a mistake then.
    pub(super) fn amnesia(&mut self) -> bool {
        if !self.get("amnesia", parse::boolean) {
            return false;
        }
        for key in PLACES {
            let source = &self.value(key).source;
            if !matches!(source, Source::Default | Source::Derived { .. }) {
                self.warnings.push(format!(
                    "{source}: {key} is not used: amnesia keeps nothing"
                ));
            }
        }
        let elsewhere = "would keep what amnesia must not: leave one of them out";
        let place = self.optional("database_url", parse::database_url);
        if matches!(place, Some(DatabasePlace::Server(_))) {
            self.complain("database_url", elsewhere);
        }
        if self.value("redis_url").text.is_some() {
            self.complain("redis_url", elsewhere);
        }
        true
    }
}
