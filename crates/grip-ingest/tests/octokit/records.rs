//! Every person and every repository in the payloads.

use std::collections::BTreeSet;

use grip_ingest::{
    extract::{self, Record, unmapped},
    fields::{Field, REPOSITORY, USER},
};
use serde_json::Value;

use super::{examples, files, package};

/// Columns that none of the packages has a value for: they are only sent for a person by name, and
/// of a repository that is a fork or made from another.
const UNSEEN_OF_USERS: &[&str] = &[
    "bio",
    "blog",
    "company",
    "hireable",
    "location",
    "notification_email",
    "twitter_username",
    "user_view_type",
];
const UNSEEN_OF_REPOSITORIES: &[&str] = &["parent_id", "source_id", "template_repository_id"];

/// Parts that are in the raw text only.
const LEFT_OUT_OF_REPOSITORIES: &[&str] = &[
    "/custom_properties",
    "/master_branch",
    "/merge_commit_message",
    "/merge_commit_title",
    "/permissions",
    "/public",
    "/role_name",
    "/squash_merge_commit_message",
    "/squash_merge_commit_title",
    "/temp_clone_token",
    "/use_squash_pr_title_as_default",
];

fn all() -> Vec<Value> {
    let mut all: Vec<_> = examples().into_iter().map(|(_, body)| body).collect();
    all.extend(files(&package("fixtures"), "fixture.json"));
    all
}

/// Every object, at any depth, that has all of these keys.
fn objects<'a>(value: &'a Value, keys: &[&str], found: &mut Vec<&'a Value>) {
    match value {
        Value::Object(fields) => {
            if keys.iter().all(|key| fields.contains_key(*key)) {
                found.push(value);
            }
            fields
                .values()
                .for_each(|value| objects(value, keys, found));
        }
        Value::Array(values) => values.iter().for_each(|value| objects(value, keys, found)),
        _ => {}
    }
}

struct Seen {
    count: usize,
    unseen: BTreeSet<&'static str>,
    unmapped: BTreeSet<String>,
}

fn look(
    keys: &[&str],
    fields: &'static [Field],
    read: fn(&[u8]) -> Result<Record, extract::Malformed>,
) -> Seen {
    let all = all();
    let mut found = Vec::new();
    all.iter()
        .for_each(|value| objects(value, keys, &mut found));
    let mut seen = Seen {
        count: found.len(),
        unseen: fields.iter().map(|field| field.column).collect(),
        unmapped: BTreeSet::new(),
    };
    for value in found {
        let record = read(value.to_string().as_bytes());
        let record = record.unwrap_or_else(|why| panic!("{why}: {value}"));
        assert!(record.unfit.is_empty(), "{:?}: {value}", record.unfit);
        assert_eq!(record.cells.len(), fields.len());
        for (field, cell) in fields.iter().zip(&record.cells) {
            let said = value.pointer(field.pointer).filter(|said| !said.is_null());
            let is_kept = match cell {
                extract::Cell::Int(kept) => kept.is_some(),
                extract::Cell::Text(kept) => kept.is_some(),
            };
            assert_eq!(said.is_some(), is_kept, "{} of {value}", field.column);
            if value.pointer(field.pointer).is_some() {
                seen.unseen.remove(field.column);
            }
        }
        seen.unmapped.extend(unmapped(value, fields));
    }
    seen
}

#[test]
fn every_repository_can_be_read_and_every_column_is_found() {
    let keys = ["id", "full_name", "html_url", "owner"];
    let seen = look(&keys, REPOSITORY, extract::repository);
    println!("{} repositories", seen.count);
    assert!(seen.count > 500, "{}", seen.count);
    assert_eq!(Vec::from_iter(seen.unseen), UNSEEN_OF_REPOSITORIES);
    let left_out: BTreeSet<_> = LEFT_OUT_OF_REPOSITORIES
        .iter()
        .map(|p| p.to_string())
        .collect();
    let new: Vec<_> = seen.unmapped.difference(&left_out).collect();
    assert!(new.is_empty(), "sent by GitHub and in no column: {new:?}");
}

#[test]
fn every_person_can_be_read_and_every_column_is_found() {
    let keys = ["id", "login", "avatar_url"];
    let seen = look(&keys, USER, extract::user);
    println!("{} people and organisations", seen.count);
    assert!(seen.count > 2_000, "{}", seen.count);
    assert_eq!(Vec::from_iter(seen.unseen), UNSEEN_OF_USERS);
}

/// The whole words about one repository, as `/repos/…` answers them.
#[test]
fn the_answer_about_a_repository_fills_its_columns() {
    let mut found = Vec::new();
    let all = files(&package("fixtures"), "fixture.json");
    for file in &all {
        objects(file, &["subscribers_count", "network_count"], &mut found);
    }
    assert!(!found.is_empty());
    for value in found {
        let record = extract::repository(value.to_string().as_bytes()).unwrap();
        let filled = record.cells.iter().filter(|cell| match cell {
            extract::Cell::Int(kept) => kept.is_some(),
            extract::Cell::Text(kept) => kept.is_some(),
        });
        let filled = filled.count();
        assert!(filled >= 70, "{filled} of {}", record.cells.len());
    }
}
