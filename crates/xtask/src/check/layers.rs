//! The layer rule: a crate may use what is below it, and nothing beside or above it.

use anyhow::bail;
use cargo_metadata::{DependencyKind, Metadata};

/// One floor of the house.
struct Layer {
    name: &'static str,
    /// Separated by spaces.
    crates: &'static str,
    /// Whether a crate may use those named before it on the same floor.
    ordered: bool,
}

const LAYERS: &[Layer] = &[
    Layer {
        name: "foundation",
        crates: "grip-types grip-go grip-tlog grip-nostr grip-tasks grip-limits grip-egress grip-bucket grip-db grip-store",
        ordered: true,
    },
    Layer {
        name: "mechanisms",
        crates: "grip-dht grip-git grip-github grip-purgatory grip-queue grip-relay",
        ordered: false,
    },
    Layer {
        name: "features",
        crates: "grip-browse grip-cluster grip-follow grip-grasp grip-index grip-ingest grip-resolve grip-sync",
        ordered: false,
    },
    Layer {
        name: "edge",
        crates: "grip-web gripfast",
        ordered: true,
    },
    Layer {
        name: NEVER_SHIPPED,
        crates: "grip-testkit grip-conformance grip-bench xtask gripfast-fuzz",
        ordered: true,
    },
];

const NEVER_SHIPPED: &str = "never shipped";

/// Floor and place on it.
fn place(name: &str) -> Option<(usize, usize)> {
    LAYERS.iter().enumerate().find_map(|(floor, layer)| {
        let place = layer.crates.split(' ').position(|c| c == name)?;
        Some((floor, place))
    })
}

/// Says whether a crate of this name is part of the node.
pub(super) fn is_shipped(name: &str) -> bool {
    place(name).is_some_and(|(floor, _)| LAYERS[floor].name != NEVER_SHIPPED)
}

/// Says what is wrong with an arrow, if anything.
fn complaint(from: &str, to: &str, kind: DependencyKind) -> Option<String> {
    let (from_floor, from_place) = place(from)?;
    let (to_floor, to_place) = place(to)?;
    let (ours, theirs) = (LAYERS[from_floor].name, LAYERS[to_floor].name);
    // Tests of any crate may use the test kit.
    if kind == DependencyKind::Development && theirs == NEVER_SHIPPED {
        return None;
    }
    let down = to_floor < from_floor;
    let along = to_floor == from_floor && LAYERS[from_floor].ordered && to_place < from_place;
    if down || along {
        return None;
    }
    let way = if to_floor == from_floor {
        "sideways"
    } else {
        "up"
    };
    Some(format!("{from} ({ours}) points {way} to {to} ({theirs})"))
}

/// Checks every arrow between crates of the workspace.
pub(super) fn check(metadata: &Metadata) -> anyhow::Result<String> {
    let packages = metadata.workspace_packages();
    let names: Vec<&str> = packages.iter().map(|p| p.name.as_str()).collect();
    let mut wrong: Vec<_> = names
        .iter()
        .filter(|name| place(name).is_none())
        .map(|name| format!("{name} has no layer: give it one in {}", file!()))
        .collect();
    let mut arrows = 0;
    for package in &packages {
        let ours = package.dependencies.iter();
        for dependency in ours.filter(|d| names.contains(&d.name.as_str())) {
            arrows += 1;
            wrong.extend(complaint(&package.name, &dependency.name, dependency.kind));
        }
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(format!("{} crates, {arrows} arrows", names.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrows_point_down_only() {
        let normal = |from, to| complaint(from, to, DependencyKind::Normal);
        assert_eq!(normal("grip-grasp", "grip-git"), None);
        assert_eq!(normal("grip-store", "grip-nostr"), None);
        assert_eq!(normal("gripfast", "grip-web"), None);
        assert_eq!(
            normal("grip-git", "grip-relay").as_deref(),
            Some("grip-git (mechanisms) points sideways to grip-relay (mechanisms)")
        );
        assert_eq!(
            normal("grip-types", "grip-grasp").as_deref(),
            Some("grip-types (foundation) points up to grip-grasp (features)")
        );
        assert!(normal("grip-nostr", "grip-store").is_some());
        assert!(normal("grip-web", "gripfast").is_some());
    }

    #[test]
    fn only_tests_use_the_test_kit() {
        assert_eq!(
            complaint("grip-git", "grip-testkit", DependencyKind::Development),
            None
        );
        assert!(complaint("grip-git", "grip-testkit", DependencyKind::Normal).is_some());
        assert!(complaint("grip-git", "grip-relay", DependencyKind::Development).is_some());
    }
}
