//! `gripfast version`.

use serde_json::json;

/// The version as released.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit it was built from, where the build knew.
pub(crate) const COMMIT: Option<&str> = option_env!("GRIPFAST_COMMIT");

/// Prints what this binary is.
pub(crate) fn run(as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let version = json!({ "name": "gripfast", "version": VERSION, "commit": COMMIT });
        anstream::println!("{version}");
    } else {
        let commit = COMMIT.map_or_else(String::new, |commit| format!(" ({commit})"));
        anstream::println!("gripfast {VERSION}{commit}");
    }
    Ok(())
}
