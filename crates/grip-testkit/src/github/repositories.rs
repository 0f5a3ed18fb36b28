//! The repositories, their commits, tags and files.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
};

use bytes::Bytes;

/// The first commit's moment.
const FIRST_COMMIT: i64 = 1_700_000_000;

/// What is said about a repository.
#[derive(Clone, Debug)]
pub struct Repo {
    /// `owner/name`
    pub full_name: String,
    /// Whether its owner is a person rather than an organisation.
    pub of_user: bool,
    pub archived: bool,
    pub fork: bool,
    pub private: bool,
    /// Whether all members of the enterprise may see it; counts as private.
    pub internal: bool,
    pub default_branch: String,
    /// Seconds since 1970.
    pub pushed_at: Option<i64>,
    pub language: Option<String>,
    pub topics: Vec<String>,
    /// `None`: below `https://github.com`, as the real one says.
    pub clone_url: Option<String>,
}

impl Repo {
    pub fn new(full_name: &str) -> Self {
        Self {
            full_name: full_name.to_owned(),
            of_user: false,
            archived: false,
            fork: false,
            private: false,
            internal: false,
            default_branch: "main".to_owned(),
            pushed_at: Some(FIRST_COMMIT),
            language: Some("Go".to_owned()),
            topics: Vec::new(),
            clone_url: None,
        }
    }

    /// Whether callers without a token do not see it.
    pub(super) fn is_hidden(&self) -> bool {
        self.private || self.internal
    }

    pub(super) fn visibility(&self) -> &'static str {
        match (self.internal, self.private) {
            (true, _) => "internal",
            (false, true) => "private",
            (false, false) => "public",
        }
    }

    pub(super) fn owner(&self) -> &str {
        self.full_name.split('/').next().unwrap_or_default()
    }
}

/// A repository with all that is in it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) id: u64,
    pub(super) repo: Repo,
    pub(super) tags: BTreeMap<String, String>,
    /// Tag objects and their moments, by the name of the tag.
    pub(super) annotated: BTreeMap<String, (String, i64)>,
    /// Moments of commits, by id.
    pub(super) commits: HashMap<String, i64>,
    files: BTreeMap<String, Bytes>,
    files_at: BTreeMap<(String, String), Bytes>,
}

impl Held {
    /// The file as it is in a commit.
    pub(super) fn file(&self, oid: &str, path: &str) -> Option<&Bytes> {
        let own = self.files_at.get(&(oid.to_owned(), path.to_owned()));
        own.or_else(|| self.files.get(path))
    }

    /// Whether there are files below this path.
    pub(super) fn is_directory(&self, oid: &str, path: &str) -> bool {
        let below = format!("{path}/");
        let own = self.files_at.keys().filter(|(at, _)| at == oid);
        let mut all = self.files.keys().chain(own.map(|(_, path)| path));
        all.any(|path| path.starts_with(&below))
    }

    /// The commit that an id or the name of a tag means.
    pub(super) fn resolve(&self, name: &str) -> Option<String> {
        if self.commits.contains_key(name) {
            return Some(name.to_owned());
        }
        self.tags.get(name).cloned()
    }
}

#[derive(Debug, Default)]
pub(super) struct Repositories {
    pub(super) repos: BTreeMap<u64, Held>,
    /// In lower case, as names are found whatever their case.
    names: HashMap<String, u64>,
    old_names: HashMap<String, u64>,
    owners: HashMap<String, BTreeSet<u64>>,
    users: HashSet<String>,
    /// Organisations that deny tokens for want of single sign-on.
    sso: HashSet<String>,
    last_id: u64,
    last_commit: u64,
    pub(super) activity: super::events::Activity,
}

const UNKNOWN: &str = "tests name repositories that were added";

impl Repositories {
    pub(super) fn add(&mut self, repo: Repo) -> u64 {
        // With gaps, as where repositories were deleted.
        self.last_id += 7;
        let id = self.last_id;
        let owner = repo.owner().to_lowercase();
        if repo.of_user {
            self.users.insert(owner.clone());
        }
        self.owners.entry(owner).or_default().insert(id);
        let name = repo.full_name.to_lowercase();
        self.old_names.remove(&name);
        self.names.insert(name, id);
        let held = Held {
            id,
            repo,
            tags: BTreeMap::new(),
            annotated: BTreeMap::new(),
            commits: HashMap::new(),
            files: BTreeMap::new(),
            files_at: BTreeMap::new(),
        };
        self.repos.insert(id, held);
        id
    }

    pub(super) fn id(&self, full_name: &str) -> Option<u64> {
        self.names.get(&full_name.to_lowercase()).copied()
    }

    /// The repository that had this name before.
    pub(super) fn moved(&self, full_name: &str) -> Option<u64> {
        let id = self.old_names.get(&full_name.to_lowercase()).copied();
        id.filter(|id| self.repos.contains_key(id))
    }

    /// The repositories of an owner, by id; none for an unknown one.
    pub(super) fn of_owner(&self, owner: &str, only_org: bool) -> Option<&BTreeSet<u64>> {
        let owner = owner.to_lowercase();
        if only_org && self.users.contains(&owner) {
            return None;
        }
        self.owners.get(&owner)
    }

    fn held(&mut self, full_name: &str) -> &mut Held {
        let id = self.id(full_name).expect(UNKNOWN);
        self.repos.get_mut(&id).expect(UNKNOWN)
    }

    pub(super) fn change(&mut self, full_name: &str, change: impl FnOnce(&mut Repo)) {
        let held = self.held(full_name);
        change(&mut held.repo);
        held.repo.full_name = full_name.to_owned();
    }

    pub(super) fn remove(&mut self, full_name: &str) {
        let id = self.id(full_name).expect(UNKNOWN);
        self.names.remove(&full_name.to_lowercase());
        if let Some(held) = self.repos.remove(&id) {
            let owner = held.repo.owner().to_lowercase();
            self.owners.entry(owner).or_default().remove(&id);
        }
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let id = self.id(from).expect(UNKNOWN);
        let held = self.repos.get_mut(&id).expect(UNKNOWN);
        let before = held.repo.owner().to_lowercase();
        held.repo.full_name = to.to_owned();
        let after = held.repo.owner().to_lowercase();
        self.owners.entry(before).or_default().remove(&id);
        self.owners.entry(after).or_default().insert(id);
        self.names.remove(&from.to_lowercase());
        self.names.insert(to.to_lowercase(), id);
        self.old_names.insert(from.to_lowercase(), id);
    }

    pub(super) fn commit(&mut self, full_name: &str, at: Option<i64>) -> String {
        self.last_commit += 1;
        let count = self.last_commit;
        let at = at.unwrap_or(FIRST_COMMIT + i64::try_from(count).unwrap_or_default());
        let oid = made_up_oid(count);
        let held = self.held(full_name);
        held.commits.insert(oid.clone(), at);
        held.repo.pushed_at = Some(at);
        oid
    }

    pub(super) fn tag(&mut self, full_name: &str, tag: &str, oid: &str) {
        let held = self.held(full_name);
        held.commits.entry(oid.to_owned()).or_insert(FIRST_COMMIT);
        held.annotated.remove(tag);
        held.tags.insert(tag.to_owned(), oid.to_owned());
    }

    pub(super) fn annotate(&mut self, full_name: &str, tag: &str, oid: &str, at: i64) -> String {
        self.tag(full_name, tag, oid);
        self.last_commit += 1;
        let object = made_up_oid(self.last_commit);
        let held = self.held(full_name);
        held.annotated.insert(tag.to_owned(), (object.clone(), at));
        object
    }

    pub(super) fn untag(&mut self, full_name: &str, tag: &str) {
        let held = self.held(full_name);
        held.tags.remove(tag);
        held.annotated.remove(tag);
    }

    pub(super) fn require_sso(&mut self, owner: &str, is_required: bool) {
        let owner = owner.to_lowercase();
        if is_required {
            self.sso.insert(owner);
        } else {
            self.sso.remove(&owner);
        }
    }

    pub(super) fn denies(&self, owner: &str) -> bool {
        self.sso.contains(&owner.to_lowercase())
    }

    pub(super) fn tags(&mut self, full_name: &str) -> Vec<(String, String)> {
        self.held(full_name).tags.clone().into_iter().collect()
    }

    pub(super) fn put_file(&mut self, full_name: &str, oid: Option<&str>, path: &str, to: Bytes) {
        let held = self.held(full_name);
        match oid {
            Some(oid) => held.files_at.insert((oid.to_owned(), path.to_owned()), to),
            None => held.files.insert(path.to_owned(), to),
        };
    }

    pub(super) fn delete_file(&mut self, full_name: &str, path: &str) {
        let held = self.held(full_name);
        held.files.remove(path);
        held.files_at.retain(|(_, at), _| at != path);
    }
}

/// An object id that looks like one.
fn made_up_oid(count: u64) -> String {
    let part = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (count, salt).hash(&mut hasher);
        hasher.finish()
    };
    format!("{:016x}{:016x}{:08x}", part(0), part(1), part(2) >> 32)
}
