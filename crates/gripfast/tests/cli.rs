//! The command line as people meet it: help, configuration, and sentences when it cannot start.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use tempfile::TempDir;

/// Runs the binary in `dir` with nothing in its environment but `PATH` and what is given.
#[expect(
    clippy::disallowed_methods,
    reason = "the binary is what is tested here"
)]
fn gripfast(dir: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gripfast"))
        .current_dir(dir)
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("the binary was built")
}

fn dir() -> TempDir {
    tempfile::tempdir().expect("there is room for a directory")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("it prints text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("it prints text")
}

/// The last line, which says why it could not start, without the program's name.
fn reason(output: &Output) -> String {
    let text = stderr(output);
    let line = text.lines().last().unwrap_or_default();
    line.strip_prefix("gripfast: ").unwrap_or(line).to_owned()
}

/// An address on which nobody listens at the moment.
fn free_address() -> String {
    let free = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    free.local_addr().expect("it is bound").to_string()
}

/// Fails unless the command ended with 1 and a reason that begins so.
#[track_caller]
fn must_fail(output: &Output, because: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", stderr(output));
    assert!(reason(output).starts_with(because), "{}", stderr(output));
}

#[test]
fn help_is_one_screen() {
    let short = gripfast(dir().path(), &["-h"], &[]);
    let long = gripfast(dir().path(), &["--help"], &[]);
    assert!(short.status.success() && long.status.success());
    assert_eq!(stdout(&short), stdout(&long));
    let text = stdout(&long);
    assert!(text.lines().count() <= 50, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    insta::assert_snapshot!("help", text);
}

#[test]
fn the_help_of_serve_shows_what_most_people_need() {
    let output = gripfast(dir().path(), &["serve", "--help"], &[]);
    let text = stdout(&output);
    assert!(
        text.contains("--domain") && !text.contains("--sync-max-tasks"),
        "{text}"
    );
    assert!(text.lines().count() <= 70, "{text}");
    insta::assert_snapshot!("serve_help", text);
}

#[test]
fn the_help_of_config_shows_every_option() {
    let output = gripfast(dir().path(), &["config", "--help"], &[]);
    let text = stdout(&output);
    let json = gripfast(dir().path(), &["config", "--json"], &[]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    for option in json["options"].as_array().unwrap() {
        let flag = format!("--{}", option["key"].as_str().unwrap().replace('_', "-"));
        assert!(text.contains(&flag), "{flag}");
    }
    assert!(!text.contains("relay- owner"), "{text}");
}

#[test]
fn manual_pages_are_made_of_every_command() {
    let dir = dir();
    let page = gripfast(dir.path(), &["man"], &[]);
    assert!(
        stdout(&page).contains(".TH gripfast 1"),
        "{}",
        stdout(&page)
    );
    let written = gripfast(dir.path(), &["man", "--dir", "pages"], &[]);
    assert!(written.status.success(), "{}", stderr(&written));
    for name in ["gripfast.1", "gripfast-backup.1", "gripfast-sync-status.1"] {
        assert!(dir.path().join("pages").join(name).exists(), "{name}");
    }
    let config = fs::read_to_string(dir.path().join("pages/gripfast-config.1")).unwrap();
    assert!(config.contains("max\\-pack\\-bytes"), "{config}");
}

/// Headings as the pages of a forge link to them.
fn anchor(heading: &str) -> String {
    let kept = |c: char| c.is_alphanumeric() || c == ' ' || c == '-';
    let plain: String = heading.chars().filter(|c| kept(*c)).collect();
    plain.trim().to_lowercase().replace(' ', "-")
}

#[test]
fn every_alert_leads_to_what_can_be_done_about_it() {
    let rules = include_str!("../../../packaging/prometheus/gripfast.rules.yml");
    let page = include_str!("../../../docs/troubleshooting.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("## "));
    let anchors: Vec<_> = headings.map(anchor).collect();
    let alerts = rules.split("- alert: ").skip(1);
    for alert in alerts {
        let name = alert.lines().next().unwrap().trim();
        let (_, link) = alert
            .split_once("troubleshooting.md#")
            .unwrap_or_else(|| panic!("{name}"));
        let link = link.split('"').next().unwrap();
        assert!(
            anchors.iter().any(|anchor| anchor == link),
            "{name}: {link}"
        );
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn every_setting_for_a_busy_node_is_an_option() {
    let page = include_str!("../../../docs/troubleshooting.md");
    let (_, section) = page.split_once("Alert `GripfastBusy`").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let settings = rows.filter_map(|row| row.split(" | ").nth(1));
    // Every second part is in code.
    let mut named: Vec<_> = settings
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    let after = section.rsplit("|\n").next().unwrap();
    named.extend(after.split('`').skip(1).step_by(2));
    assert!(
        named.contains(&"max_pushes") && named.len() >= 5,
        "{named:?}"
    );
    let output = gripfast(dir().path(), &["config", "--json"], &[]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let options = json["options"].as_array().unwrap();
    for name in named {
        let option = options.iter().find(|option| option["key"] == name);
        assert!(option.is_some_and(|it| it["has_effect"] == true), "{name}");
    }
}

#[test]
fn a_node_keeps_its_files_to_itself() {
    let dir = dir();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    // It ends at once, after it took its directory.
    gripfast(dir.path(), &["--bind-address", &address], &[]);
    let mode = |name: &str| {
        fs::metadata(dir.path().join(name))
            .unwrap()
            .permissions()
            .mode()
    };
    assert_eq!(mode("data") & 0o777, 0o750);
    assert_eq!(mode("data/gripfast.lock") & 0o027, 0);
}

#[test]
fn the_effective_configuration_is_shown_with_its_sources() {
    let dir = dir();
    fs::write(
        dir.path().join("gripfast.toml"),
        "max_pack_bytes = \"1 GiB\"\n",
    )
    .unwrap();
    fs::write(dir.path().join(".env"), "NGIT_RELAY_NAME=\"Harbour\"\n").unwrap();
    let nsec = format!("{:0>64}", 1);
    let env = [
        ("NGIT_DOMAIN", "grasp.example.com"),
        ("NGIT_RELAY_OWNER_NSEC", nsec.as_str()),
        ("NGIT_SYNC_MAX_BACKOFF_SECS", "60"),
        ("NGIT_DOMIAN", "x"),
    ];
    let output = gripfast(dir.path(), &["config", "--log-level", "debug"], &env);
    assert!(output.status.success(), "{}", stderr(&output));
    insta::assert_snapshot!(
        "config",
        format!("{}---\n{}", stdout(&output), stderr(&output))
    );
    assert!(!stdout(&output).contains(&nsec), "a secret is masked");
}

#[test]
fn the_effective_configuration_is_there_for_programs() {
    let nsec = format!("{:0>64}", 1);
    let env = [("NGIT_RELAY_OWNER_NSEC", nsec.as_str())];
    let output = gripfast(dir().path(), &["config", "--json"], &env);
    assert!(!stdout(&output).contains(&nsec), "a secret is masked");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let options = json["options"].as_array().unwrap();
    let find = |key: &str| options.iter().find(|o| o["key"] == key).unwrap();
    assert_eq!(find("bind_address")["value"], "127.0.0.1:7334");
    assert_eq!(find("bind_address")["source"]["kind"], "default");
    assert_eq!(
        find("relay_owner_nsec")["source"]["name"],
        "NGIT_RELAY_OWNER_NSEC"
    );
    assert_eq!(find("sync_plus_enabled")["has_effect"], true);
    assert_eq!(find("metrics_top_n_repos")["has_effect"], false);
}

#[test]
fn bad_configuration_ends_with_64_and_names_its_place() {
    let dir = dir();
    fs::write(
        dir.path().join("gripfast.toml"),
        "\nmax_pack_bytes = \"big\"\n",
    )
    .unwrap();
    let output = gripfast(dir.path(), &[], &[("NGIT_BIND_ADDRESS", "here")]);
    assert_eq!(output.status.code(), Some(64));
    assert_eq!(
        stderr(&output).lines().collect::<Vec<_>>(),
        [
            "gripfast: environment NGIT_BIND_ADDRESS: bind_address — `here` is no IP:PORT such as \
             127.0.0.1:7334 or [::]:7334",
            "gripfast: gripfast.toml:2: max_pack_bytes — `big` is no size such as `500 MB`, \
             `2 GiB` or a number of bytes",
        ]
    );
    assert!(!dir.path().join("data").exists(), "nothing was touched");
}

#[test]
fn a_wrong_command_line_ends_with_64() {
    for arguments in [&["--bind-adress", "x"][..], &["sevre"], &["explain"]] {
        let output = gripfast(dir().path(), arguments, &[]);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
    }
}

#[test]
fn a_taken_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = gripfast(dir().path(), &["--bind-address", &address], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        reason(&output),
        format!(
            "{address} is in use by another program; choose another address with --bind-address"
        )
    );
}

#[test]
fn a_data_directory_in_use_names_its_holder() {
    let dir = dir();
    fs::create_dir(dir.path().join("data")).unwrap();
    let path = dir.path().join("data/gripfast.lock");
    fs::write(&path, "4711\n").unwrap();
    let held = fs::File::open(&path).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let output = gripfast(dir.path(), &["--bind-address", "127.0.0.1:0"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        reason(&output),
        "the directory ./data is in use by another gripfast (process 4711): stop that one, or choose \
         another directory with --data-dir"
    );
}

#[test]
fn a_data_directory_that_cannot_be_written_is_named() {
    let dir = dir();
    fs::write(dir.path().join("file"), "").unwrap();
    let arguments = ["--data-dir", "file/data", "--bind-address", "127.0.0.1:0"];
    let output = gripfast(dir.path(), &arguments, &[]);
    must_fail(&output, "cannot write to the directory file/data: ");
}

#[test]
fn git_that_is_missing_or_too_old_is_named() {
    let dir = dir();
    let serve = |git: &str| {
        let arguments = ["--git-program", git, "--bind-address", "127.0.0.1:0"];
        let output = gripfast(dir.path(), &arguments, &[]);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        reason(&output)
    };
    let missing = serve("no-such-git");
    assert!(missing.contains("no-such-git"), "{missing}");
    let old = dir.path().join("old-git");
    fs::write(&old, "#!/bin/sh\necho git version 2.30.1\n").unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
    let old = serve(old.to_str().unwrap());
    assert!(old.contains("2.30") && old.contains("2.37"), "{old}");
}

#[test]
fn commands_of_a_client_say_when_the_node_does_not_run() {
    let free = free_address();
    let env = [("NGIT_BIND_ADDRESS", free.as_str())];
    let because = format!("no response from http://{free}: nothing listens there");
    must_fail(
        &gripfast(dir().path(), &["healthcheck"], &env),
        "no response from",
    );
    for arguments in [
        &["explain", "npub1x/sails"][..],
        &["sync", "status"],
        &["sync", "now", "tides"],
        &["purgatory", "ls"],
        &["purgatory", "retry", "ab12"],
        &["purgatory", "drop", "ab12", "--yes"],
        &["queue", "ls", "--state", "dead"],
        &["queue", "retry", "index-repo", "github.com/acme/tides"],
        &["queue", "drop", "index-repo", "github.com/acme/tides"],
        &["index", "status"],
        &["index", "now", "github.com/orgs/acme"],
        &["index", "repo", "github.com/acme/tides"],
    ] {
        must_fail(&gripfast(dir().path(), arguments, &env), &because);
    }
}

#[test]
fn commands_that_change_something_say_where_the_token_should_be() {
    // Answers every request with 200, as a node would its health.
    let node = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = node.local_addr().unwrap().to_string();
    let answering = std::thread::spawn(move || {
        for stream in node.incoming().take(2) {
            let mut stream = stream.unwrap();
            let mut head = [0; 1024];
            let _ = stream.read(&mut head).unwrap();
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let dir = dir();
    let env = [("NGIT_BIND_ADDRESS", address.as_str())];
    let none = gripfast(dir.path(), &["sync", "now", "tides"], &env);
    let because = "there is no admin token to read in ./data/admin.token (the running node makes \
                   it; name its data directory with --data-dir): ";
    must_fail(&none, because);
    fs::write(dir.path().join("admin.token"), "not a token\n").unwrap();
    let arguments = ["sync", "now", "tides", "--data-dir", "."];
    let broken = gripfast(dir.path(), &arguments, &env);
    let because = "there is no admin token to read in ./admin.token (run this as the user of the \
                   node)";
    must_fail(&broken, because);
    answering.join().unwrap();
}

#[test]
fn every_command_that_asks_a_node_is_told_its_data_directory() {
    for arguments in [
        &["status"][..],
        &["explain"],
        &["check"],
        &["queue", "causes"],
        &["queue", "revive"],
        &["index", "forget"],
        &["ingest", "status"],
        &["archive", "log"],
        &["pins"],
    ] {
        let output = gripfast(dir().path(), &[arguments, &["-h"]].concat(), &[]);
        let text = stdout(&output);
        assert!(text.contains("--data-dir"), "{arguments:?}: {text}");
    }
    let env = [("NGIT_BIND_ADDRESS", "127.0.0.1:1")];
    let output = gripfast(dir().path(), &["check", "--data-dir", "nowhere"], &env);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no node was started in nowhere"), "{said}");
}

#[test]
fn each_steering_command_explains_itself() {
    let mut all = String::new();
    for arguments in [
        &["sync", "-h"][..],
        &["sync", "now", "-h"],
        &["purgatory", "-h"],
        &["purgatory", "drop", "-h"],
        &["queue", "-h"],
        &["queue", "ls", "-h"],
        &["queue", "drop", "-h"],
        &["index", "-h"],
        &["index", "now", "-h"],
        &["index", "repo", "-h"],
        &["resolve", "-h"],
    ] {
        let output = gripfast(dir().path(), arguments, &[]);
        assert!(output.status.success(), "{arguments:?}");
        all.push_str(&format!("$ gripfast {}\n", arguments.join(" ")));
        all.push_str(&stdout(&output));
        all.push('\n');
    }
    insta::assert_snapshot!("steering_help", all);
    for arguments in [
        &["sync"][..],
        &["purgatory", "drop"],
        &["sync", "later"],
        &["queue", "retry", "index-repo"],
        &["queue", "ls", "--state", "lost"],
        &["index", "now"],
        &["resolve"],
    ] {
        let output = gripfast(dir().path(), arguments, &[]);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}");
    }
}

#[test]
fn completions_know_every_option() {
    for shell in ["bash", "zsh", "fish"] {
        let output = gripfast(dir().path(), &["completions", shell], &[]);
        assert!(stdout(&output).contains("max-pack-bytes"), "{shell}");
    }
    let version = gripfast(dir().path(), &["version", "--json"], &[]);
    assert!(stdout(&version).contains(env!("CARGO_PKG_VERSION")));
}
