//! The directories and the database that hold the state of the node.

use std::path::PathBuf;

use crate::config::{
    kinds::{Bytes, Count, DatabasePlace, EventBackend, NodeName},
    option::options,
};

options! {
    /// Directories and databases.
    Storage: "Where it keeps things" {
        /// Directory that holds all state.
        data_dir: PathBuf = "./data", common;
        /// Leave nothing behind: what must be on disk is kept in a private directory below the
        /// system's directory for temporary files (`TMPDIR`), and removed when the node ends. All
        /// other places in this group are not used then.
        amnesia: bool = "false";
        /// Directory of the repositories. One laid out by ngit-grasp is taken over as it is.
        git_data_path: Option<PathBuf>, derived("`git` in the data directory"), ngit,
            example("./data/git");
        /// Directory of the event store.
        relay_data_path: Option<PathBuf>, derived("`relay` in the data directory"), ngit,
            example("./data/relay");
        /// Accepted for the sake of ngit-grasp's units: events are kept in LMDB whatever it says.
        database_backend: EventBackend = "lmdb", ngit;
        /// Database for everything but events and git data. `postgres://user:password@host/name` is
        /// a server that several instances may share, `sqlite:PATH` a file.
        database_url: Option<DatabasePlace>, derived("`gripfast.sqlite` in the data directory"),
            env_alias("DATABASE_URL"), common,
            example("postgres://gripfast@db.example.com/gripfast");
        /// Most connections to a Postgres server; work beyond waits for one.
        database_connections: Count<u32, 3, 1000> = "10";
        /// Name of this instance, different from those of all others that share its database. It
        /// belongs to the data directory: under another name the node would not know its own.
        node_name: Option<NodeName>,
            derived("made once and kept in `node.name` in the data directory"),
            example("harbour-1");
        /// Most that the event store may ever hold. Address space, not disk: the file grows as it
        /// is filled.
        event_map_bytes: Bytes = "64 GiB";
        /// The git to run; 2.37 or newer.
        git_program: PathBuf = "git";
    }
}
