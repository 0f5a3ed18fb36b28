//! SQL state: pool, migrations, the purgatory journal.
