//! cgit behind nginx and fcgiwrap, as Debian packages them.

use std::{
    fs,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context as _, Result};
use grip_testkit::{ReservedPort, until};
use tempfile::TempDir;
use tokio::net::TcpStream;

const PROGRAM: &str = "/usr/lib/cgit/cgit.cgi";

pub(super) struct Cgit {
    pub(super) port: ReservedPort,
    children: Vec<Child>,
    _dir: TempDir,
}

impl Cgit {
    /// Serves a work tree's repository as `large`; none where it is not installed.
    pub(super) async fn start(tree: &Path) -> Result<Option<Self>> {
        let programs = [PROGRAM, "/usr/sbin/nginx", "/usr/sbin/fcgiwrap"];
        if !programs.iter().all(|program| Path::new(program).exists()) {
            return Ok(None);
        }
        let dir = tempfile::tempdir()?;
        let reserved = ReservedPort::new()?;
        let (at, port) = (dir.path().display(), reserved.number());
        let repository = tree.join(".git");
        let repository = repository.display();
        // As it is used: without a cache of pages, with the names of authors.
        fs::write(
            dir.path().join("cgitrc"),
            format!(
                "virtual-root=/\nenable-index-links=1\nmax-commit-count=50\n\
                 repo.url=large\nrepo.path={repository}\nrepo.defbranch=main\n"
            ),
        )?;
        // Its workers become somebody else by default, who may not enter the directory.
        let user = if rustix::process::geteuid().is_root() {
            "user root;"
        } else {
            ""
        };
        fs::write(
            dir.path().join("nginx.conf"),
            format!(
                "{user} daemon off; pid {at}/nginx.pid; error_log {at}/error.log; worker_processes 2;\n\
                 events {{}}\nhttp {{ access_log off; keepalive_requests 1000000;\n\
                 client_body_temp_path {at}/body; proxy_temp_path {at}/proxy;\n\
                 fastcgi_temp_path {at}/fastcgi; uwsgi_temp_path {at}/uwsgi;\n\
                 scgi_temp_path {at}/scgi;\n\
                 server {{ listen 127.0.0.1:{port}; location / {{\n\
                 fastcgi_pass unix:{at}/socket; fastcgi_param SCRIPT_FILENAME {PROGRAM};\n\
                 fastcgi_param PATH_INFO $uri; fastcgi_param QUERY_STRING $args;\n\
                 fastcgi_param REQUEST_METHOD $request_method;\n\
                 fastcgi_param CGIT_CONFIG {at}/cgitrc; fastcgi_param HTTP_HOST $http_host;\n\
                 }} }} }}\n"
            ),
        )?;
        let socket = format!("unix:{at}/socket");
        let conf = format!("{at}/nginx.conf");
        let children = vec![
            start("/usr/sbin/fcgiwrap", &["-c", "8", "-s", &socket])?,
            start("/usr/sbin/nginx", &["-c", &conf])?,
        ];
        let cgit = Self {
            port: reserved,
            children,
            _dir: dir,
        };
        until("nginx listens", || async {
            TcpStream::connect(("127.0.0.1", port)).await.ok()
        })
        .await?;
        Ok(Some(cgit))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "another server is measured beside ours"
)]
fn start(program: &str, arguments: &[&str]) -> Result<Child> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .process_group(0);
    command.spawn().with_context(|| program.to_owned())
}

impl Drop for Cgit {
    fn drop(&mut self) {
        for child in &mut self.children {
            let group = i32::try_from(child.id()).ok();
            if let Some(group) = group.and_then(rustix::process::Pid::from_raw) {
                // One that has ended by itself is as dead as we want it.
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = child.wait();
        }
    }
}
