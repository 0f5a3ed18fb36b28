//! Rows of a server as lines of files, and the file of SQLite that is made of them.
//!
//! ```text
//! <directory>/
//! ├── schema          the number of the latest migration
//! └── <table>.rows    one JSON object for each row, in the order of the primary key
//! ```
//!
//! What changed little is the same lines in the same order, so that a backup stores it once. Rows that a
//! node has to itself are written without its name. They come back into a file, whose tables are the same,
//! with the schema of their time: migrations made since then change them there as they change any file.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use futures_util::TryStreamExt as _;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, SqliteConnection,
    sqlite::{SqliteJournalMode, SqliteSynchronous},
};
use tokio::{
    fs::{self, File},
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, BufWriter},
    time::timeout,
};

use super::{Db, OnProgress, file, migrations, server::pool::ConnectionPool, transfer::SEEDED};
use crate::DbError;

const SCHEMA: &str = "schema";
const EXTENSION: &str = "rows";
/// The longest wait for the next row: the server may have to sort a table first.
const ROW_TIMEOUT: Duration = Duration::from_secs(300);
/// How much is written before the room on the disk is looked at again.
const ROOM_EVERY: usize = 4 << 20;
/// Rows and bytes that travel at once.
const PAGE_ROWS: usize = 500;
const PAGE_BYTES: usize = 1 << 20;
/// Tables with their columns and the order of their rows. Those of the schema and of clusters are left out, and
/// those that triggers fill from other tables.
const TABLES: &str = "\
    SELECT c.relname::text, \
        (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute AS a \
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'node'), \
        (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY array_position(i.indkey::int2[], a.attnum)) \
            FROM pg_index AS i JOIN pg_attribute AS a \
            ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey::int2[]) \
            WHERE i.indrelid = c.oid AND i.indisprimary), \
        EXISTS (SELECT 1 FROM pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname = 'node') \
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
    WHERE n.nspname = current_schema() AND c.relkind = 'r' \
        AND c.relname NOT LIKE '%sqlx%' AND c.relname NOT LIKE 'cluster%' \
        AND c.relname NOT LIKE '%\\_json' \
    ORDER BY c.relname";

/// Why rows were not written, or made no file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RowsError {
    #[error("cannot read or write {}", .path.display())]
    File { path: PathBuf, source: io::Error },
    /// The caller ended it.
    #[error(transparent)]
    NoRoom(io::Error),
    #[error(
        "the rows were written by a newer gripfast (migration {0} is unknown here): use that version"
    )]
    Newer(i64),
    #[error("{} names no migration", .0.display())]
    NoSchema(PathBuf),
    #[error("there is no table {0:?} in the schema of that time")]
    NoTable(String),
    #[error("cannot make the schema of that time")]
    Migration(#[source] sqlx::migrate::MigrateError),
    #[error(transparent)]
    Database(#[from] DbError),
}

/// Rows on their way, as a JSON array.
#[derive(Default)]
pub(super) struct Page {
    text: String,
    rows: usize,
}

impl Page {
    /// Adds a row; returns the array once it is worth a statement.
    pub(super) fn push(&mut self, row: &str) -> Option<String> {
        self.text.push(if self.rows == 0 { '[' } else { ',' });
        self.text.push_str(row);
        self.rows += 1;
        let is_full = self.rows >= PAGE_ROWS || self.text.len() >= PAGE_BYTES;
        is_full.then(|| self.take()).flatten()
    }

    /// What was added since the last array.
    pub(super) fn take(&mut self) -> Option<String> {
        let Self { mut text, rows } = std::mem::take(self);
        text.push(']');
        (rows > 0).then_some(text)
    }
}

/// A table as the server has it.
struct Table {
    name: String,
    columns: String,
    order: String,
    /// Each node has rows of its own in it.
    is_of_nodes: bool,
}

/// Writes the rows of `node`, and those that all nodes share, as they are at one moment. `check_room` ends
/// it where the disk has no room left.
pub(super) async fn export(
    pool: &ConnectionPool,
    directory: &Path,
    node: &str,
    check_room: &mut (dyn FnMut() -> io::Result<()> + Send),
) -> Result<(), RowsError> {
    // It may take minutes: the connections of the pool are for others meanwhile.
    let mut link = pool.open_apart().await?;
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout = 0";
    let begun = sqlx::raw_sql(begin).execute(&mut link).await;
    begun.map_err(DbError::of_server)?;
    let schema = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations");
    let schema: i64 = schema
        .fetch_one(&mut link)
        .await
        .map_err(DbError::of_server)?;
    let of_directory = |source| file_error(directory, source);
    fs::create_dir_all(directory).await.map_err(of_directory)?;
    for table in tables(&mut link).await? {
        let path = directory.join(&table.name).with_extension(EXTENSION);
        write_table(&mut link, &table, node, &path, check_room).await?;
    }
    let path = directory.join(SCHEMA);
    let written = fs::write(&path, format!("{schema}\n")).await;
    written.map_err(|source| file_error(&path, source))?;
    let _ = timeout(pool.time_limit(), link.close()).await;
    Ok(())
}

async fn tables(link: &mut PgConnection) -> Result<Vec<Table>, RowsError> {
    let rows = sqlx::query_as(TABLES).fetch_all(link).await;
    let rows: Vec<(String, String, Option<String>, bool)> = rows.map_err(DbError::of_server)?;
    let table = |(name, columns, key, is_of_nodes): (String, String, Option<String>, bool)| Table {
        name,
        order: key.unwrap_or_else(|| columns.clone()),
        columns,
        is_of_nodes,
    };
    Ok(rows.into_iter().map(table).collect())
}

async fn write_table(
    link: &mut PgConnection,
    table: &Table,
    node: &str,
    path: &Path,
    check_room: &mut (dyn FnMut() -> io::Result<()> + Send),
) -> Result<(), RowsError> {
    let Table {
        name,
        columns,
        order,
        is_of_nodes,
    } = table;
    let condition = if *is_of_nodes { "WHERE node = $1" } else { "" };
    let text = format!(
        "SELECT row_to_json(r)::text \
         FROM (SELECT {columns} FROM \"{name}\" {condition} ORDER BY {order}) AS r"
    );
    let mut reading = sqlx::query_scalar(AssertSqlSafe(text));
    if *is_of_nodes {
        reading = reading.bind(node);
    }
    let mut rows = reading.fetch(link);
    let failed = |source| file_error(path, source);
    let mut out = BufWriter::new(File::create(path).await.map_err(failed)?);
    let mut unchecked = 0;
    loop {
        let row = timeout(ROW_TIMEOUT, rows.try_next()).await;
        let row: Option<String> = row
            .map_err(|_| DbError::TimedOut)?
            .map_err(DbError::of_server)?;
        let Some(row) = row else {
            break;
        };
        out.write_all(row.as_bytes()).await.map_err(failed)?;
        out.write_all(b"\n").await.map_err(failed)?;
        unchecked += row.len();
        if unchecked >= ROOM_EVERY {
            unchecked = 0;
            check_room().map_err(RowsError::NoRoom)?;
        }
    }
    out.flush().await.map_err(failed)
}

impl Db {
    /// Makes a file of the rows in a directory, where none is yet, with the schema that they were written
    /// with; says how many rows there are. Half of a file is worth nothing: it is made without a journal.
    /// `on_progress` is told bytes of the directory.
    pub async fn import_rows(
        directory: &Path,
        path: &Path,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<u64, RowsError> {
        let schema = schema(&directory.join(SCHEMA)).await?;
        let migrator = migrations::sqlite();
        if migrator.iter().map(|it| it.version).max() < Some(schema) {
            return Err(RowsError::Newer(schema));
        }
        let options = file::options(path, file::BUSY_TIMEOUT)
            .journal_mode(SqliteJournalMode::Off)
            .synchronous(SqliteSynchronous::Off);
        let mut link = options.connect().await.map_err(DbError::of_file)?;
        let migrated = migrator.run_direct(Some(schema), &mut link, false).await;
        migrated.map_err(RowsError::Migration)?;
        run(&mut link, "BEGIN".to_owned(), None).await?;
        let files = files(directory).await?;
        let total = files.iter().map(|file| file.bytes).sum();
        let (mut imported, mut done) = (0, 0);
        for file in files {
            let mut on_bytes = |bytes| {
                done += bytes;
                on_progress(done, total);
            };
            imported += read_table(&mut link, &file, &mut on_bytes).await?;
        }
        run(&mut link, "COMMIT".to_owned(), None).await?;
        link.close().await.map_err(DbError::of_file)?;
        Ok(imported)
    }
}

async fn schema(path: &Path) -> Result<i64, RowsError> {
    let text = fs::read_to_string(path).await;
    let text = text.map_err(|source| file_error(path, source))?;
    let number = text.trim().parse();
    number.map_err(|_| RowsError::NoSchema(path.to_owned()))
}

/// A file of rows.
struct RowsFile {
    table: String,
    path: PathBuf,
    bytes: u64,
}

/// The files of the tables of which there are rows.
async fn files(directory: &Path) -> Result<Vec<RowsFile>, RowsError> {
    let failed = |source| file_error(directory, source);
    let mut entries = fs::read_dir(directory).await.map_err(failed)?;
    let mut files = Vec::new();
    while let Some(entry) = entries.next_entry().await.map_err(failed)? {
        let path = entry.path();
        if path.extension().is_some_and(|it| it == EXTENSION)
            && let Some(table) = path.file_stem().and_then(|it| it.to_str())
        {
            files.push(RowsFile {
                table: table.to_owned(),
                bytes: entry.metadata().await.map_err(failed)?.len(),
                path,
            });
        }
    }
    files.sort_by(|one, other| one.table.cmp(&other.table));
    Ok(files)
}

async fn read_table(
    link: &mut SqliteConnection,
    file: &RowsFile,
    on_bytes: &mut (dyn FnMut(u64) + Send),
) -> Result<u64, RowsError> {
    let RowsFile { table, path, .. } = file;
    let failed = |source| file_error(path, source);
    let put = insert(link, table).await?;
    if SEEDED.contains(&table.as_str()) {
        run(link, format!("DELETE FROM \"{table}\""), None).await?;
    }
    let opened = File::open(path).await.map_err(failed)?;
    let mut lines = BufReader::new(opened).lines();
    let (mut page, mut read, mut bytes) = (Page::default(), 0, 0);
    loop {
        let line = lines.next_line().await.map_err(failed)?;
        let is_last = line.is_none();
        read += u64::from(!is_last);
        bytes += line.as_ref().map_or(0, |line| line.len() as u64 + 1);
        let full = match line {
            Some(line) => page.push(&line),
            None => page.take(),
        };
        if let Some(rows) = full {
            run(link, put.clone(), Some(rows)).await?;
            on_bytes(std::mem::take(&mut bytes));
        }
        if is_last {
            return Ok(read);
        }
    }
}

/// The statement that stores a JSON array of rows.
async fn insert(link: &mut SqliteConnection, table: &str) -> Result<String, RowsError> {
    let columns = sqlx::query_scalar("SELECT name FROM pragma_table_info($1)").bind(table);
    let columns: Vec<String> = columns.fetch_all(link).await.map_err(DbError::of_file)?;
    if columns.is_empty() {
        return Err(RowsError::NoTable(table.to_owned()));
    }
    let quoted: Vec<String> = columns.iter().map(|name| format!("\"{name}\"")).collect();
    let values = columns.iter().map(|name| match name.as_str() {
        // A file is of one node, which needs no name in it.
        "node" => "''".to_owned(),
        name => format!("json_extract(value, '$.\"{name}\"')"),
    });
    let values: Vec<String> = values.collect();
    Ok(format!(
        "INSERT INTO \"{table}\" ({}) SELECT {} FROM json_each($1)",
        quoted.join(", "),
        values.join(", ")
    ))
}

async fn run(
    link: &mut SqliteConnection,
    text: String,
    value: Option<String>,
) -> Result<(), RowsError> {
    let mut statement = sqlx::query(AssertSqlSafe(text));
    if let Some(value) = value {
        statement = statement.bind(value);
    }
    let done = statement.execute(link).await;
    done.map_err(DbError::of_file)?;
    Ok(())
}

fn file_error(path: &Path, source: io::Error) -> RowsError {
    RowsError::File {
        path: path.to_owned(),
        source,
    }
}
