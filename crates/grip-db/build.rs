//! The migrations as Rust: a list of (version, description, SQL) for each engine.
//!
//! `sqlx::migrate!` would do the same, but its crate is a macro that brings both database drivers,
//! SQLite included, into every build a second time.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../migrations");
    println!("cargo::rerun-if-changed={}", root.display());
    for engine in ["sqlite", "postgres"] {
        let list = list(&root.join(engine))?;
        fs::write(
            Path::new(&env::var("OUT_DIR")?)
                .join(engine)
                .with_extension("rs"),
            list,
        )?;
    }
    Ok(())
}

fn list(directory: &Path) -> Result<String, Box<dyn Error>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        names.push(
            name.into_string()
                .map_err(|name| format!("odd name {name:?}"))?,
        );
    }
    names.sort();
    let mut list = String::from("[");
    for name in names {
        let stem = name
            .strip_suffix(".sql")
            .ok_or_else(|| format!("{name} is no migration"))?;
        let (version, description) = stem
            .split_once('_')
            .ok_or_else(|| format!("{name}: no _"))?;
        let (version, description) = (version.parse::<i64>()?, description.replace('_', " "));
        let path = directory.join(&name);
        write!(
            list,
            "({version}, {description:?}, include_str!({path:?})),"
        )?;
    }
    list.push(']');
    Ok(list)
}
