//! The fence of a leader: what it writes counts as long as it leads.
//!
//! A process that was paused does not know that another has taken its place. So every transaction of a
//! fenced handle shares the key of the cluster's row, which holds its epoch: a new leader waits for those
//! under way, and those that come after it find another epoch and change nothing.

use crate::{Connection, DbError};

/// The cluster and the epoch in which a handle may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    pub cluster: String,
    pub epoch: i64,
}

crate::statements! {
    pub(crate) mod sql {
        SHARE = {
            sqlite: "SELECT epoch FROM clusters WHERE name = $1 AND epoch = $2",
            postgres: "SELECT epoch FROM clusters WHERE name = $1 AND epoch = $2 FOR KEY SHARE",
        };
    }
}

impl Fence {
    /// Keeps the epoch as it is until the transaction ends; fails if it is another one.
    pub(crate) async fn hold(&self, connection: &mut Connection<'_>) -> Result<(), DbError> {
        let values = [self.cluster.as_str().into(), self.epoch.into()];
        let held: Option<(i64,)> = connection.fetch_optional(&sql::SHARE, &values).await?;
        held.map(drop).ok_or(DbError::NameTaken)
    }
}
