use std::io::Write as _;

use grip_types::NetworkPrefixes;
use tempfile::TempDir;

use super::{super::module_file::tests::facts, *};

const MIB: usize = 1 << 20;

fn user(last: u8) -> User {
    let ip = std::net::IpAddr::from([192, 0, 2, last]);
    User::Network(NetworkPrefixes::default().network(ip))
}

/// A cache for eight modules of a MiB, with their facts.
fn cache(dir: &TempDir) -> Cache {
    Cache::open(dir.path().to_owned(), 8 * (MIB as u64 + 4096)).unwrap()
}

fn put(cache: &Cache, key: &str, by: User) {
    let mut draft = cache.draft().unwrap();
    draft.write_all(&vec![1; MIB]).unwrap();
    let finished = draft.finish(facts(), b"module x\n").unwrap();
    drop(cache.put(key, finished, by).unwrap());
}

fn has(cache: &Cache, key: &str) -> bool {
    let files = cache.files.lock();
    files.new.files.contains(key) || files.shared.files.contains(key)
}

#[test]
fn the_new_module_that_was_used_longest_ago_goes_first() {
    let dir = TempDir::new().unwrap();
    let cache = cache(&dir);
    for n in 0..8 {
        put(&cache, &format!("{n}"), user(1));
    }
    assert!(cache.get("0", user(1)).unwrap().is_some());
    put(&cache, "8", user(1));
    assert!(has(&cache, "0") && !has(&cache, "1") && has(&cache, "8"));
    let (bytes, number) = cache.usage();
    assert!(bytes <= cache.max_bytes && number == 8);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 8);
}

#[test]
fn one_network_never_displaces_what_two_others_use() {
    let dir = TempDir::new().unwrap();
    let cache = cache(&dir);
    for n in 0..4 {
        put(&cache, &format!("used-{n}"), user(1));
        assert!(cache.get(&format!("used-{n}"), user(2)).unwrap().is_some());
    }
    put(&cache, "known", User::Known);
    for n in 0..50 {
        put(&cache, &format!("flood-{n}"), user(3));
        // Asking again and again is no second network.
        assert!(cache.get(&format!("flood-{n}"), user(3)).unwrap().is_some());
    }
    for n in 0..4 {
        assert!(has(&cache, &format!("used-{n}")), "used-{n}");
    }
    assert!(has(&cache, "known"));
    assert!(cache.usage().0 <= cache.max_bytes);
}

#[test]
fn what_pages_show_is_no_use() {
    let dir = TempDir::new().unwrap();
    let cache = cache(&dir);
    for n in 0..8 {
        put(&cache, &format!("{n}"), user(1));
    }
    assert!(cache.get("0", User::Nobody).unwrap().is_some());
    assert_eq!(cache.files.lock().shared.files.len(), 0);
    put(&cache, "8", User::Nobody);
    assert!(!has(&cache, "0") && has(&cache, "8"));
}

#[test]
fn shared_modules_leave_a_quarter_to_new_ones() {
    let dir = TempDir::new().unwrap();
    let cache = cache(&dir);
    for n in 0..8 {
        put(&cache, &format!("{n}"), User::Known);
    }
    let files = cache.files.lock();
    assert_eq!((files.shared.files.len(), files.new.files.len()), (6, 2));
    assert!(files.new.files.contains("0"));
}

#[test]
fn a_restart_finds_whole_modules_in_their_order_and_no_drafts() {
    let dir = TempDir::new().unwrap();
    {
        let cache = cache(&dir);
        put(&cache, "shared", User::Known);
        for n in 0..3 {
            put(&cache, &format!("{n}"), user(1));
        }
        let mut draft = cache.draft().unwrap();
        draft.write_all(b"half").unwrap();
        // As after a kill.
        std::mem::forget(draft);
    }
    fs::write(dir.path().join("README"), "not ours").unwrap();
    let cache = cache(&dir);
    assert_eq!(cache.usage().1, 4);
    assert!(cache.get("0", user(2)).unwrap().is_some());
    assert!(cache.files.lock().shared.files.contains("shared"));
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(names.len(), 5, "{names:?}");
}

#[test]
fn a_damaged_module_is_removed_and_one_that_is_gone_is_forgotten() {
    let dir = TempDir::new().unwrap();
    let cache = cache(&dir);
    put(&cache, "damaged", user(1));
    put(&cache, "gone", user(1));
    fs::write(dir.path().join("damaged.new"), "nonsense").unwrap();
    fs::remove_file(dir.path().join("gone.new")).unwrap();
    for key in ["damaged", "gone"] {
        assert!(cache.get(key, user(1)).unwrap().is_none(), "{key}");
        assert!(!has(&cache, key));
    }
    assert_eq!(cache.usage(), (0, 0));
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
}

#[test]
fn what_is_being_read_outlives_its_removal() {
    let dir = TempDir::new().unwrap();
    let cache = cache(&dir);
    put(&cache, "a", user(1));
    let module = cache.get("a", user(1)).unwrap().unwrap();
    cache.remove("a").unwrap();
    let mut zip = Vec::new();
    module.copy_zip_to(&mut zip).unwrap();
    assert_eq!(zip.len(), MIB);
}

#[test]
fn who_reads_while_another_use_moves_the_file_gets_it() {
    let dir = TempDir::new().unwrap();
    let cache = cache(&dir);
    put(&cache, "a", user(1));
    std::thread::scope(|threads| {
        let read = || (0..1_000).all(|_| cache.get("a", User::Nobody).unwrap().is_some());
        let reading = [(); 4].map(|()| threads.spawn(read));
        while !reading.iter().all(|thread| thread.is_finished()) {
            for is_back in [false, true] {
                let mut files = cache.files.lock();
                let Files { new, shared } = &mut *files;
                let (from, to) = if is_back {
                    (shared, new)
                } else {
                    (new, shared)
                };
                cache.move_file("a", from, to).unwrap();
            }
        }
        for thread in reading {
            assert!(thread.join().unwrap(), "it is there all the time");
        }
    });
    assert!(has(&cache, "a"));
}

#[test]
fn an_error_that_says_nothing_of_a_module_leaves_it() {
    let dir = TempDir::new().unwrap();
    let cache = cache(&dir);
    put(&cache, "a", user(1));
    let (file, aside) = (dir.path().join("a.new"), dir.path().join("aside"));
    fs::rename(&file, &aside).unwrap();
    // Too many levels of links.
    std::os::unix::fs::symlink(&file, &file).unwrap();
    assert!(cache.get("a", user(1)).is_err());
    assert!(has(&cache, "a"));
    fs::rename(&aside, &file).unwrap();
    assert!(cache.get("a", user(1)).unwrap().is_some());
}

#[test]
fn what_cannot_be_moved_or_removed_still_counts() {
    let dir = TempDir::new().unwrap();
    let cache = cache(&dir);
    put(&cache, "a", user(1));
    let usage = cache.usage();
    fs::create_dir(dir.path().join("a.shared")).unwrap();
    assert!(cache.get("a", user(2)).unwrap().is_some());
    assert_eq!(cache.usage(), usage);
    fs::remove_file(dir.path().join("a.new")).unwrap();
    fs::create_dir(dir.path().join("a.new")).unwrap();
    assert!(cache.remove("a").is_err());
    assert_eq!(cache.usage(), usage);
}
