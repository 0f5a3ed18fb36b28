//! The real go tool, with nothing of the user's configuration and no network.

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;
use tempfile::TempDir;

/// A home for the go tool, removed with it.
pub struct Go {
    home: TempDir,
    proxy: String,
}

impl Go {
    /// Fetches modules from a directory laid out as a module proxy.
    pub fn with_proxy(directory: &Path) -> Self {
        Self {
            home: TempDir::new().unwrap(),
            proxy: format!("file://{}", directory.display()),
        }
    }

    /// Fetches modules from a repository on this machine that stands in for one at `url`.
    pub fn with_repository(url: &str, directory: &Path) -> Self {
        let home = TempDir::new().unwrap();
        let config = format!(
            "[url \"file://{}\"]\n\tinsteadOf = {url}\n[safe]\n\tdirectory = *\n",
            directory.display()
        );
        std::fs::write(home.path().join("gitconfig"), config).unwrap();
        let proxy = "direct".into();
        Self { home, proxy }
    }

    pub fn run(&self, directory: &Path, args: &[&str]) -> Output {
        let home = self.home.path();
        #[expect(clippy::disallowed_methods, reason = "tests compare with go itself")]
        let mut command = Command::new("go");
        command
            .current_dir(directory)
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", home)
            .env("GOPATH", home.join("path"))
            .env("GOMODCACHE", home.join("modules"))
            .env("GOCACHE", home.join("cache"))
            .env("GOTMPDIR", home)
            .env("GOENV", "off")
            .env("GOTOOLCHAIN", "local")
            .env("GO111MODULE", "on")
            .env("GOFLAGS", "-mod=mod -modcacherw")
            .env("GONOSUMDB", "*")
            .env("GOSUMDB", "off")
            .env("GOVCS", "*:git")
            .env("GOPROXY", &self.proxy)
            .env("CGO_ENABLED", "0")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", home.join("gitconfig"));
        command.output().expect("go must be installed")
    }

    /// A directory with an empty module of its own.
    pub fn main_module(&self, name: &str) -> std::path::PathBuf {
        let directory = self.home.path().join(name);
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(
            directory.join("go.mod"),
            "module main.example/m\n\ngo 1.19\n",
        )
        .unwrap();
        directory
    }

    /// What `go mod download` says about each `path@version`.
    pub fn download(&self, wanted: &[String]) -> Vec<Value> {
        let mut args = vec!["mod", "download", "-json"];
        args.extend(wanted.iter().map(String::as_str));
        let output = self.run(self.home.path(), &args);
        let said: Vec<Value> = serde_json::Deserializer::from_slice(&output.stdout)
            .into_iter()
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(
            said.len(),
            wanted.len(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        said
    }
}

/// The standard output of a command that succeeded.
pub fn succeeded(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
