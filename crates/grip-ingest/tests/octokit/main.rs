//! Payloads that nobody here wrote: those that GitHub's own libraries are tested with.
//!
//! They come from the npm registry and are not part of this repository; `cargo xtask test`
//! fetches them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

mod deliveries;
mod records;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// The directory of a package.
fn package(name: &str) -> PathBuf {
    let dir = std::env::var_os("GRIPFAST_FIXTURES_DIR").filter(|dir| !dir.is_empty());
    let Some(dir) = dir else {
        panic!(
            "GRIPFAST_FIXTURES_DIR is not set: these tests need payloads from the npm registry; \
             run them with `cargo xtask test`, which fetches them"
        );
    };
    let package = PathBuf::from(dir).join(name);
    let what = package.display();
    assert!(
        package.is_dir(),
        "{what} is missing: run `cargo xtask test`"
    );
    package
}

/// Every JSON file below a directory whose name ends so.
fn files(dir: &Path, ending: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            let text = fs::read(&path).unwrap();
            let value = serde_json::from_slice(&text);
            found.push(value.unwrap_or_else(|error| panic!("{}: {error}", path.display())));
        }
    }
    found
}

/// The examples of webhooks: the name of the event and a body.
fn examples() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for index in files(&package("webhooks-examples"), "index.json") {
        for event in index.as_array().unwrap() {
            let name = event["name"].as_str().unwrap();
            for example in event["examples"].as_array().unwrap() {
                all.push((name.to_owned(), example.clone()));
            }
        }
    }
    assert!(all.len() > 500, "{} examples", all.len());
    all
}
