//! `gripfast version`.

use serde_json::json;

/// The version as released.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit it was built from, where the build knew.
pub(crate) const COMMIT: Option<&str> = option_env!("GRIPFAST_COMMIT");

/// Prints what this binary is.
pub(crate) fn run(as_json: bool) -> anyhow::Result<()> {
    if as_json {
        anstream::println!(
            "{}",
            json!({ "name": "gripfast", "version": VERSION, "commit": COMMIT })
        );
    } else {
        let commit = COMMIT
            .map(|commit| format!(" ({commit})"))
            .unwrap_or_default();
        anstream::println!("gripfast {VERSION}{commit}");
    }
    Ok(())
}
