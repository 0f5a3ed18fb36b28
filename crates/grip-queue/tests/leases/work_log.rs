//! An append-only log that the database itself writes: a trigger notes each claim, renewal and
//! end in the transaction that makes it, so that no kill can part the two.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};

use crate::work::LEASE;

const TABLE: &str = "CREATE TABLE noted (seq {serial} PRIMARY KEY, at_ms BIGINT, what TEXT, \
                     id BIGINT, token BIGINT, due_ms BIGINT, until_ms BIGINT)";
const WHAT: &str = "CASE WHEN NEW.holder IS NULL THEN 'ended' \
                    WHEN NEW.lease_token = OLD.lease_token THEN 'renewed' ELSE 'claimed' END";
const COLUMNS: &str = "INSERT INTO noted (at_ms, what, id, token, due_ms, until_ms)";

pub async fn install_on_postgres(url: &str) -> PgConnection {
    let mut db = PgConnection::connect(url).await.unwrap();
    let now = "(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let text = format!(
        "{table}; CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
         IF TG_OP = 'DELETE' THEN {COLUMNS} \
             VALUES ({now}, 'gone', OLD.id, OLD.lease_token, 0, OLD.visible_at); \
         ELSE {COLUMNS} VALUES ({now}, {WHAT}, NEW.id, NEW.lease_token, OLD.visible_at, NEW.visible_at); \
         END IF; RETURN NULL; END $$; \
         CREATE TRIGGER note AFTER UPDATE OR DELETE ON queue \
         FOR EACH ROW EXECUTE FUNCTION note()",
        table = TABLE.replace("{serial}", "BIGSERIAL"),
    );
    let made = sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut db).await;
    made.unwrap();
    db
}

pub async fn install_on_sqlite(path: &std::path::Path) -> SqliteConnection {
    let url = format!("sqlite://{}", path.display());
    let mut db = SqliteConnection::connect(&url).await.unwrap();
    let now = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)";
    let text = format!(
        "{table}; \
         CREATE TRIGGER note_update AFTER UPDATE ON queue BEGIN \
         {COLUMNS} VALUES ({now}, {WHAT}, NEW.id, NEW.lease_token, OLD.visible_at, NEW.visible_at); END; \
         CREATE TRIGGER note_delete AFTER DELETE ON queue BEGIN \
         {COLUMNS} VALUES ({now}, 'gone', OLD.id, OLD.lease_token, 0, OLD.visible_at); END;",
        table = TABLE.replace("{serial}", "INTEGER"),
    );
    let made = sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut db).await;
    made.unwrap();
    db
}

/// At which time, what, which job, which token, when it had been due, until when it is held.
pub type Note = (i64, String, i64, i64, i64, i64);
pub const READ: &str = "SELECT at_ms, what, id, token, due_ms, until_ms FROM noted ORDER BY seq";

/// What the notes say in sum.
#[derive(Debug, Default)]
pub struct Told {
    pub claims: usize,
    pub renewals: usize,
    pub given_back: usize,
    /// Items that were claimed after a lease had run out.
    pub resumed: usize,
    /// The longest time between the end of such a lease and the next claim.
    pub longest_wait_ms: i64,
    /// The longest of these that was not spent on items that had been due before.
    pub passed_over_ms: i64,
    /// The longest time in which nothing at all was noted.
    pub longest_pause_ms: i64,
}

/// Clocks of two processes may differ by so much.
const CLOCKS_MS: i64 = LEASE.as_millis() as i64 / 20;

/// Checks that each of `items` was finished once, by the one who held it, and that nobody claimed
/// what another held.
pub fn check(notes: &[Note], items: usize) -> Told {
    let mut told = Told::default();
    let mut held = BTreeMap::<i64, (i64, i64)>::new();
    let mut last_token = BTreeMap::<i64, i64>::new();
    let mut gone = std::collections::BTreeSet::new();
    let mut resumed = Vec::new();
    for note @ (at_ms, what, id, token, _, until_ms) in notes {
        assert!(!gone.contains(id), "after its end: {note:?}");
        let before = held.get(id).copied();
        match what.as_str() {
            "claimed" => {
                if let Some((_, until)) = before {
                    assert!(*at_ms >= until - CLOCKS_MS, "held until {until}: {note:?}");
                    told.resumed += 1;
                    resumed.push((until, *at_ms));
                }
                let newer = last_token
                    .insert(*id, *token)
                    .is_none_or(|last| last < *token);
                assert!(newer, "a token came again: {note:?}");
                held.insert(*id, (*token, *until_ms));
                told.claims += 1;
            }
            "renewed" => {
                let (holder, _) = before.expect("only what is held is renewed");
                assert_eq!(holder, *token, "{note:?}");
                held.insert(*id, (*token, *until_ms));
                told.renewals += 1;
            }
            "ended" => {
                let (holder, _) = before.expect("only what is held is given back");
                assert_eq!(holder + 1, *token, "{note:?}");
                held.remove(id);
                told.given_back += 1;
            }
            "gone" => {
                let (holder, _) = before.expect("only what is held is finished");
                assert_eq!(holder, *token, "{note:?}");
                gone.insert(*id);
            }
            other => panic!("unknown word {other}"),
        }
    }
    assert_eq!(gone.len(), items, "every item is done once");
    let pauses = notes.windows(2).map(|pair| pair[1].0 - pair[0].0);
    told.longest_pause_ms = pauses.max().unwrap_or(0);
    let waits = resumed.iter().map(|(from, to)| to - from);
    told.longest_wait_ms = waits.max().unwrap_or(0);
    let passed = resumed.iter().map(|wait| passed_over(notes, *wait));
    told.passed_over_ms = passed.max().unwrap_or(0);
    told
}

/// For how long an item waited while others were claimed that had become due after it.
fn passed_over(notes: &[Note], (from, to): (i64, i64)) -> i64 {
    let claims = notes.iter().filter(|note| note.1 == "claimed");
    let later = claims.filter(|note| note.0 < to && note.4 > from);
    later.map(|note| to - note.0).max().unwrap_or(0)
}

#[test]
fn the_check_finds_what_is_wrong() {
    let note = |at_ms: i64, what: &str, token: i64, until: i64| {
        (at_ms, what.to_owned(), 7, token, 0, until)
    };
    let good = vec![
        note(0, "claimed", 1, 1_000),
        note(500, "renewed", 1, 1_500),
        note(1_600, "claimed", 2, 2_600),
        note(1_700, "gone", 2, 2_600),
    ];
    let told = check(&good, 1);
    assert_eq!((told.claims, told.renewals, told.resumed), (2, 1, 1));
    assert_eq!(told.longest_wait_ms, 100);
    assert_eq!(told.passed_over_ms, 0);
    let mut unfair = good.clone();
    unfair.insert(2, (1_520, "claimed".to_owned(), 8, 1, 1_510, 2_520));
    unfair.push((1_800, "gone".to_owned(), 8, 1, 0, 2_520));
    assert_eq!(check(&unfair, 2).passed_over_ms, 80);
    let mut early = good.clone();
    early[2].0 = 1_200;
    let mut stale = good.clone();
    stale[3].3 = 1;
    let mut foreign = good.clone();
    foreign[1].3 = 3;
    let mut twice = good.clone();
    twice.push(note(1_800, "gone", 2, 2_600));
    for bad in [early, stale, foreign, twice, good[..3].to_vec()] {
        assert!(
            std::panic::catch_unwind(|| check(&bad, 1)).is_err(),
            "{bad:?}"
        );
    }
}
