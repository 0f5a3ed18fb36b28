//! The limit of open file descriptors, raised to what connections need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A connection may need two: its socket, and a pipe to git or a file that is read for it.
const PER_CONNECTION: u64 = 2;

/// Takes as many as the system lets us have; says so where that is too few for `connections`.
pub(super) fn raise(connections: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // What could not be raised is told below, as what is then left.
    let _ = setrlimit(Resource::Nofile, raised);
    let have = getrlimit(Resource::Nofile).current;
    if let Some(want) = too_few(have, connections) {
        tracing::warn!(
            have,
            want,
            "fewer files may be open than max_connections needs: raise the limit (ulimit -n)"
        );
    }
}

/// What is needed, where it is more than there is; `None` is no limit.
fn too_few(have: Option<u64>, connections: usize) -> Option<u64> {
    let want = (connections as u64).saturating_mul(PER_CONNECTION);
    have.is_some_and(|have| have < want).then_some(want)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_for_each_connection_are_enough() {
        assert_eq!(too_few(Some(8191), 4096), Some(8192));
        assert_eq!(too_few(Some(8192), 4096), None);
        assert_eq!(too_few(None, usize::MAX), None);
    }
}
