//! The migrations of both engines, compiled in.

use sqlx::{
    SqlSafeStr as _,
    migrate::{Migration, MigrationType, Migrator},
};

/// Version, description and SQL of one migration, as the build script lists them.
type Listed = (i64, &'static str, &'static str);

pub(super) fn sqlite() -> Migrator {
    migrator(&include!(concat!(env!("OUT_DIR"), "/sqlite.rs")))
}

pub(super) fn postgres() -> Migrator {
    migrator(&include!(concat!(env!("OUT_DIR"), "/postgres.rs")))
}

fn migrator(listed: &[Listed]) -> Migrator {
    let migration = |&(version, description, sql): &Listed| {
        let sql = sql.into_sql_str();
        Migration::new(
            version,
            description.into(),
            MigrationType::Simple,
            sql,
            false,
        )
    };
    Migrator::with_migrations(listed.iter().map(migration).collect())
}
