//! Names in a tree, each element by itself: the work for a path grows with its length and not with
//! its length times its depth, and what it shares with the path before is not looked up again.

use std::collections::{HashMap, hash_map};

use super::{MAX_NAMES, ZipError};
use crate::{display_text::shown, unicode};

const ROOT: u32 = 0;

/// The directories on the way to the last path.
#[derive(Default)]
struct Trail {
    path: Vec<u8>,
    /// Where each directory ends in the path, and its node.
    nodes: Vec<(usize, u32)>,
}

impl Trail {
    /// Goes back to the last directory that the path shares with the one before, and says where in
    /// the path the rest begins.
    fn turn(&mut self, path: &[u8]) -> (usize, u32) {
        let same = self.path.iter().zip(path).take_while(|(a, b)| a == b);
        let same = same.count();
        let is_shared = |end: usize| end <= same && path.get(end) == Some(&b'/');
        while self.nodes.pop_if(|(end, _)| !is_shared(*end)).is_some() {}
        self.path.clear();
        self.path.extend(path);
        let last = self.nodes.last();
        last.map_or((0, ROOT), |&(end, node)| (end + 1, node))
    }
}

/// A set of directories.
#[derive(Default)]
pub(super) struct Directories {
    children: HashMap<(u32, Box<[u8]>), u32>,
    /// By node, less one for the root, which is never in the set.
    in_set: Vec<bool>,
    trail: Trail,
}

impl Directories {
    pub(super) fn insert(&mut self, dir: &[u8]) -> Result<(), ZipError> {
        let mut node = ROOT;
        for element in dir.split(|&byte| byte == b'/') {
            let next = new_node(self.in_set.len())?;
            match self.children.entry((node, element.into())) {
                hash_map::Entry::Occupied(child) => node = *child.get(),
                hash_map::Entry::Vacant(place) => {
                    node = *place.insert(next);
                    self.in_set.push(false);
                }
            }
        }
        self.in_set[node as usize - 1] = true;
        Ok(())
    }

    /// Whether one of the directories is above this path.
    pub(super) fn hold(&mut self, path: &[u8]) -> bool {
        if self.children.is_empty() {
            return false;
        }
        let (mut start, mut node) = self.trail.turn(path);
        while let Some(len) = path[start..].iter().position(|&byte| byte == b'/') {
            let end = start + len;
            match self.children.get(&(node, path[start..end].into())) {
                Some(&child) => node = child,
                None => return false,
            }
            if self.in_set[node as usize - 1] {
                return true;
            }
            self.trail.nodes.push((end, node));
            start = end + 1;
        }
        false
    }
}

/// Files and their directories, to which no two differ only in case.
#[derive(Default)]
pub(super) struct Names {
    children: HashMap<(u32, Box<str>), Child>,
    trail: Trail,
}

struct Child {
    node: u32,
    /// As first seen, if that is not how the key is written.
    spelling: Option<Box<str>>,
    is_dir: bool,
}

impl Names {
    /// Adds a file and the directories above it.
    pub(super) fn add(&mut self, path: &str) -> Result<(), ZipError> {
        let (mut start, mut node) = self.trail.turn(path.as_bytes());
        while let Some(len) = path[start..].find('/') {
            let end = start + len;
            node = self.enter(node, &path[start..end], true, path)?;
            self.trail.nodes.push((end, node));
            start = end + 1;
        }
        self.enter(node, &path[start..], false, path).map(|_| ())
    }

    /// Goes one element down `path`, and says where that is.
    fn enter(
        &mut self,
        parent: u32,
        element: &str,
        is_dir: bool,
        path: &str,
    ) -> Result<u32, ZipError> {
        let folded: Box<str> = element.chars().map(unicode::fold).collect();
        let node = new_node(self.children.len())?;
        match self.children.entry((parent, folded)) {
            hash_map::Entry::Occupied(seen) => {
                let child = seen.get();
                let spelling = child.spelling.as_deref().unwrap_or(&seen.key().1);
                let path = || shown(path.as_bytes());
                match (spelling == element, child.is_dir, is_dir) {
                    (true, true, true) => Ok(child.node),
                    (false, _, _) => Err(ZipError::Collision { path: path() }),
                    (true, false, false) => Err(ZipError::Twice { path: path() }),
                    (true, _, _) => Err(ZipError::FileAndDirectory { path: path() }),
                }
            }
            hash_map::Entry::Vacant(place) => {
                let spelling = (&*place.key().1 != element).then(|| element.into());
                place.insert(Child {
                    node,
                    spelling,
                    is_dir,
                });
                Ok(node)
            }
        }
    }
}

/// The node after so many others beside the root.
fn new_node(others: usize) -> Result<u32, ZipError> {
    if others >= MAX_NAMES {
        return Err(ZipError::TooManyNames);
    }
    u32::try_from(others + 1).map_err(|_| ZipError::TooManyNames)
}
