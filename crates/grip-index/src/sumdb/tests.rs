use std::{fs, path::Path};

use grip_db::Db;
use grip_tasks::TaskGroup;
use grip_tlog::{Frontier, Tile, TreeHead, Verifier, check_consistency, record_hash};
use tempfile::TempDir;

use super::{NewRecord, OpenError, OpenOptions, Record, SumDb, SumDbError, Sums, signed, sql::sql};

grip_db::statements! {
    mod forge {
        SHORTEN = "UPDATE sumdb_log SET size = 0, frontier = '', root = $1";
        EMPTY = "DELETE FROM sumdb_records";
        NODES = "DELETE FROM sumdb_nodes";
    }
}

fn options(db: &Db, directory: &Path) -> OpenOptions {
    OpenOptions {
        db: db.clone(),
        name: None,
        default_name: "sum.example".to_owned(),
        seed: [7; 32],
        directory: directory.to_owned(),
        group: TaskGroup::new("test"),
    }
}

async fn open(db: &Db, directory: &TempDir) -> SumDb {
    SumDb::open(options(db, directory.path())).await.unwrap()
}

fn new(number: u64) -> NewRecord {
    let sum = |of: &str| format!("h1:{of}{number}");
    NewRecord {
        path: format!("example.com/m{}", number / 50),
        version: format!("v1.{}.0", number % 50),
        sums: Sums {
            zip: sum("zip"),
            go_mod: sum("mod"),
        },
        repo: "npub/m".to_owned(),
        tag: Some("v1".to_owned()),
        commit: "0".repeat(40),
    }
}

async fn append(sumdb: &SumDb, numbers: std::ops::Range<u64>) -> Vec<Record> {
    sumdb.append(numbers.map(new).collect()).await.unwrap()
}

async fn latest(sumdb: &SumDb) -> TreeHead {
    let verifier: Verifier = sumdb.verifier().parse().unwrap();
    let note = sumdb.latest().await.unwrap();
    TreeHead::parse(verifier.open(&note).unwrap()).unwrap()
}

/// The head as it follows from the records alone.
async fn recomputed(sumdb: &SumDb) -> TreeHead {
    let all = [0.into(), signed(u64::MAX).into()];
    let records: Vec<Record> = sumdb.inner.db.fetch_all(&sql::RECORDS, &all).await.unwrap();
    let mut frontier = Frontier::default();
    for (number, record) in (0..).zip(&records) {
        assert_eq!(record.id, number);
        frontier.append(record_hash(record.text().as_bytes()), |_, _| {});
    }
    TreeHead {
        size: frontier.size(),
        hash: frontier.root(),
    }
}

grip_db::on_both_engines! {
    async fn a_version_has_one_record_whatever_is_appended_later(test: TestDatabase) {
        let dir = TempDir::new().unwrap();
        let sumdb = open(test.db(), &dir).await;
        let first = append(&sumdb, 0..3).await;
        let mut other = new(1);
        other.sums.zip = "h1:other".to_owned();
        let again = sumdb.append(vec![other, new(3), new(3)]).await.unwrap();
        assert_eq!(again[0], first[1]);
        assert_eq!((again[1].id, &again[1]), (3, &again[2]));
        assert_eq!(latest(&sumdb).await, recomputed(&sumdb).await);
        assert_eq!(latest(&sumdb).await.size, 4);
    }

    async fn instances_that_append_at_once_make_one_log(test: TestDatabase) {
        const EACH: u64 = 120;
        let dirs = [TempDir::new().unwrap(), TempDir::new().unwrap()];
        let second = test.another("second").await;
        let logs = [open(test.db(), &dirs[0]).await, open(&second, &dirs[1]).await];
        // Half of what each appends is also the other's.
        let [one, two] = [0, EACH / 2].map(|first| first..first + EACH);
        let appending = |sumdb: SumDb, numbers: std::ops::Range<u64>| async move {
            for number in numbers {
                let record = sumdb.append(vec![new(number)]).await.unwrap().remove(0);
                assert!(latest(&sumdb).await.size > record.id.unsigned_abs());
            }
        };
        tokio::join!(
            appending(logs[0].clone(), one.clone()),
            appending(logs[0].clone(), two.clone()),
            appending(logs[1].clone(), two),
            appending(logs[1].clone(), one),
        );
        let head = latest(&logs[0]).await;
        assert_eq!(head.size, EACH + EACH / 2);
        assert_eq!(head, latest(&logs[1]).await);
        assert_eq!(head, recomputed(&logs[1]).await);
    }

    async fn tiles_and_proofs_are_those_of_the_log(test: TestDatabase) {
        let dir = TempDir::new().unwrap();
        let sumdb = open(test.db(), &dir).await;
        let mut heads = Vec::new();
        for numbers in [0..1, 1..256, 256..257, 257..600] {
            append(&sumdb, numbers).await;
            heads.push(latest(&sumdb).await);
        }
        let head = heads[3];
        for old in &heads {
            let proof = sumdb.consistency(old.size, head.size).await.unwrap().unwrap();
            check_consistency(&proof, (old.size, old.hash), (head.size, head.hash)).unwrap();
        }
        assert_eq!(sumdb.consistency(1, 601).await.unwrap(), None);
        assert_eq!(sumdb.consistency(0, 600).await.unwrap(), None);

        let whole = Tile::parse("8/0/001").unwrap();
        let bytes = sumdb.tile(whole).await.unwrap().unwrap();
        let part = Tile::parse("8/0/001.p/7").unwrap();
        assert_eq!(sumdb.tile(part).await.unwrap().unwrap(), bytes[..7 * 32]);
        let data = Tile::parse("8/data/002.p/88").unwrap();
        let data = sumdb.tile(data).await.unwrap().unwrap();
        assert!(data.starts_with(b"512\nexample.com/m10 v1.12.0 h1:zip512\n"), "{data:?}");
        for path in ["8/0/002", "8/0/002.p/89", "8/1/000.p/3", "8/2/000.p/1", "8/data/003"] {
            let tile = Tile::parse(path).unwrap();
            assert_eq!(sumdb.tile(tile).await.unwrap(), None, "{path}");
        }
        // A file that does not fit is not believed, and replaced.
        let file = dir.path().join("tile/8/0/001");
        assert_eq!(fs::read(&file).unwrap(), bytes);
        fs::write(&file, vec![0; 256 * 32]).unwrap();
        assert_eq!(sumdb.tile(whole).await.unwrap().unwrap(), bytes);
        assert_eq!(fs::read(&file).unwrap(), bytes);
        for page in 0..3 {
            let (_, verified) = sumdb.verify_page(page).await.unwrap();
            assert_eq!(verified.wrong, [], "page {page}");
        }
    }

    async fn a_log_is_signed_by_one_key_under_one_name(test: TestDatabase) {
        let dir = TempDir::new().unwrap();
        let first = open(test.db(), &dir).await;
        let mut other = options(test.db(), dir.path());
        other.seed = [8; 32];
        assert!(matches!(SumDb::open(other).await, Err(OpenError::OtherKey(_))));
        let mut renamed = options(test.db(), dir.path());
        renamed.name = Some("other.example".to_owned());
        assert!(matches!(SumDb::open(renamed).await, Err(OpenError::OtherName { .. })));
        // The node may be called otherwise meanwhile: the log is not.
        let mut moved = options(test.db(), dir.path());
        moved.default_name = "other.example".to_owned();
        let moved = SumDb::open(moved).await.unwrap();
        assert_eq!(moved.verifier(), first.verifier());
    }

    async fn a_database_that_was_set_back_is_not_signed_for(test: TestDatabase) {
        let dir = TempDir::new().unwrap();
        let sumdb = open(test.db(), &dir).await;
        append(&sumdb, 0..300).await;
        assert_eq!(latest(&sumdb).await.size, 300);
        assert!(SumDb::open(options(test.db(), dir.path())).await.is_ok());
        let empty = grip_tlog::Hash::empty().to_string();
        for (statement, values) in [
            (&forge::SHORTEN, vec![empty.into()]),
            (&forge::EMPTY, Vec::new()),
            (&forge::NODES, Vec::new()),
        ] {
            test.db().execute(statement, &values).await.unwrap();
        }
        let shorter = SumDb::open(options(test.db(), dir.path())).await;
        assert!(matches!(shorter, Err(OpenError::SetBack { signed: 300, found: 0 })));
        // As long again, and another log: from a node that did not notice.
        let elsewhere = TempDir::new().unwrap();
        append(&open(test.db(), &elsewhere).await, 1..302).await;
        let forked = SumDb::open(options(test.db(), dir.path())).await;
        assert!(matches!(forked, Err(OpenError::SetBack { signed: 300, found: 301 })));
    }

    async fn a_damaged_edge_is_an_error_and_not_a_second_log(test: TestDatabase) {
        let dir = TempDir::new().unwrap();
        let sumdb = open(test.db(), &dir).await;
        append(&sumdb, 0..1).await;
        test.db().execute(&forge::SHORTEN, &["no hash".into()]).await.unwrap();
        assert!(matches!(sumdb.head().await, Err(SumDbError::Damaged(_))));
        assert!(matches!(sumdb.latest().await, Err(SumDbError::Damaged(_))));
    }
}
