//! The self-test, on sound nodes and on seeded faults.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{LocalProject, Node, ReservedPort};
use serde_json::Value;

use crate::BINARY;

/// The report of a self-test, and whether it succeeded.
async fn selftest(node: &Node, arguments: &[&str], env: &[(&str, &str)]) -> Result<(Value, bool)> {
    let arguments = [&["selftest", "--json"], arguments].concat();
    let mut command = node.command(&arguments);
    command.envs(env.iter().copied());
    let output = command.output().await?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = serde_json::from_str(&text);
    let report: Value = report.with_context(|| format!("{text}{:?}", output.stderr))?;
    ensure!(report["passed"] == output.status.success(), "{report}");
    Ok((report, output.status.success()))
}

/// The checks with this outcome, by name.
fn with_outcome(report: &Value, outcome: &str) -> Vec<String> {
    let checks = report["checks"].as_array().into_iter().flatten();
    let found = checks.filter(|check| check["outcome"] == outcome);
    found
        .map(|check| check["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[tokio::test]
async fn a_temporary_node_goes_the_whole_way() -> Result<()> {
    let node = Node::prepare(BINARY, &[])?;
    let (report, is_success) = selftest(&node, &[], &[]).await?;
    ensure!(is_success, "{report:#}");
    let steps = [
        "start", "announce", "push", "kill", "restart", "clone", "verify",
    ];
    ensure!(with_outcome(&report, "passed") == steps, "{report:#}");
    Ok(())
}

#[tokio::test]
async fn a_fault_on_the_way_is_named_and_what_follows_is_skipped() -> Result<()> {
    let node = Node::prepare(BINARY, &[])?;
    for (arguments, env, failing) in [
        (
            &[][..],
            &[("GRIPFAST_FAULT", "git.refs.before")][..],
            "push",
        ),
        (&["--git-program", "/no/such/git"], &[], "start"),
    ] {
        let (report, is_success) = selftest(&node, arguments, env).await?;
        ensure!(
            !is_success && with_outcome(&report, "failed") == [failing],
            "{report:#}"
        );
        ensure!(
            with_outcome(&report, "skipped")
                .last()
                .is_some_and(|last| last == "verify")
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_running_node_passes_and_its_faults_are_told_apart() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let (report, is_success) = selftest(&node, &["--url", &node.http_url()], &[]).await?;
    ensure!(is_success, "{report:#}");
    ensure!(with_outcome(&report, "skipped") == ["tls"], "{report:#}");
    LocalProject::new("tides")?.publish(&node, 5).await?;
    let (report, _) = selftest(&node, &["--url", &node.http_url()], &[]).await?;
    let checks = report["checks"].as_array().context("a list")?;
    ensure!(
        checks
            .iter()
            .any(|check| check["detail"] == "refs are advertised"),
        "{report:#}"
    );

    // Clients use another name than announcements must list.
    let url = format!("http://localhost:{}", node.port());
    let (report, _) = selftest(&node, &["--url", &url], &[]).await?;
    ensure!(with_outcome(&report, "failed") == ["domain"], "{report:#}");

    let nobody = ReservedPort::new()?;
    let url = format!("http://127.0.0.1:{}", nobody.number());
    let (report, _) = selftest(&node, &["--url", &url], &[]).await?;
    ensure!(with_outcome(&report, "failed") == ["reach"], "{report:#}");
    ensure!(
        report.to_string().contains("connection refused"),
        "{report:#}"
    );

    // It speaks no TLS at all.
    let url = format!("https://127.0.0.1:{}", node.port());
    let (report, _) = selftest(&node, &["--url", &url], &[]).await?;
    ensure!(
        with_outcome(&report, "failed") == ["tls", "reach"],
        "{report:#}"
    );
    Ok(())
}

#[tokio::test]
async fn a_full_disk_is_named_by_selftest_status_and_readiness() -> Result<()> {
    let settings = [("GRIPFAST_MIN_FREE_BYTES", "900000 GiB")];
    let node = Node::start_with(BINARY, &settings).await?;
    grip_testkit::until("readiness names it", || async {
        let ready = node.json("/readyz").await.ok()?;
        ready["degraded"]["disk"].as_str().map(str::to_owned)
    })
    .await?;
    let (report, _) = selftest(&node, &["--url", &node.http_url()], &[]).await?;
    // How full its disks are is for the operator; that one is full is for everybody.
    ensure!(
        with_outcome(&report, "failed") == ["ready"]
            && report.to_string().contains("min_free_bytes"),
        "{report:#}"
    );
    ensure!(
        with_outcome(&report, "skipped") == ["tls", "disk"],
        "nothing says that there is room: {report:#}"
    );
    let status = node.run(&["status"]).await?;
    ensure!(
        status.starts_with("degraded") && status.contains("full: pushes"),
        "{status}"
    );
    Ok(())
}

/// Something that answers every request as a proxy would that knows nothing of websockets, CORS or
/// git, and whose clock is wrong.
fn careless_proxy() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4096];
            let length = stream.read(&mut head).unwrap_or(0);
            let is_health = head[..length].starts_with(b"GET /healthz");
            let body = if is_health {
                "ok\n"
            } else {
                "<html>hello</html>"
            };
            let answer = format!(
                "HTTP/1.1 200 OK\r\ndate: Sun, 06 Nov 1994 08:49:37 GMT\r\ncontent-type: text/html\r\n\
                 content-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    Ok(port)
}

#[tokio::test]
async fn what_a_proxy_breaks_is_named_part_by_part() -> Result<()> {
    let node = Node::prepare(BINARY, &[])?;
    let url = format!("http://127.0.0.1:{}", careless_proxy()?);
    let (report, _) = selftest(&node, &["--url", &url], &[]).await?;
    let failed = ["domain", "websocket", "git", "cors", "clock", "disk"];
    ensure!(with_outcome(&report, "failed") == failed, "{report:#}");
    for check in report["checks"].as_array().into_iter().flatten() {
        let has_step = check["next_step"].is_string();
        ensure!(has_step == (check["outcome"] == "failed"), "{check}");
    }
    Ok(())
}
