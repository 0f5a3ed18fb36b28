//! A real browser, for what people look at: headless Chromium, driven by WebDriver.

use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Mutex;

use crate::{
    http::Connection,
    installed::browser_script,
    process::Process,
    wait::{until, until_ok},
};

/// Keys as WebDriver names them.
pub const TAB: &str = "\u{e004}";
pub const ENTER: &str = "\u{e007}";

/// A window of Chromium, which ends when dropped.
pub struct Browser {
    driver: Driver,
    connection: Mutex<Connection>,
    session: String,
    _profile: TempDir,
}

/// A page as a browser made it.
#[derive(Clone, Debug)]
pub struct Page {
    /// The document after loading, with whatever scripts and errors did to it.
    pub dom: String,
    /// What the browser complained of: refused styles, failed loads, script errors.
    pub complaints: Vec<String>,
}

/// Loads `url` in a browser of its own.
pub async fn open(url: &str) -> Result<Page> {
    Browser::start().await?.open(url).await
}

/// Whether a page is asked for in dark or light.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

/// How often the driver is started until it has a port.
const STARTS: usize = 5;
const NO_PORT: &str = "port not available";

/// The server that drives the browser, with all that it started.
struct Driver {
    process: Process,
    port: u16,
    _dir: TempDir,
}

impl Driver {
    #[expect(
        clippy::disallowed_methods,
        reason = "tests look at pages with a real browser"
    )]
    async fn start() -> Result<Self> {
        // It takes a port that is free in IPv6, and ends if that port is taken in IPv4.
        for _ in 0..STARTS {
            let dir = tempfile::tempdir()?;
            let mut process = Process::new(dir.path().join("driver.log"));
            let mut command = Command::new("chromedriver");
            command.arg("--port=0");
            process.redirect(&mut command)?;
            process.child = Some(command.spawn().context(
                "chromedriver is needed to look at pages: run `cargo xtask test`, which installs it",
            )?);
            let started = until("the driver says its port", || {
                let log = process.log();
                let has_no_port = log.contains(NO_PORT);
                std::future::ready(has_no_port.then_some(None).or(started_on(&log).map(Some)))
            })
            .await
            .with_context(|| process.log())?;
            if let Some(port) = started {
                return Ok(Self {
                    process,
                    port,
                    _dir: dir,
                });
            }
        }
        bail!("chromedriver found no port in {STARTS} starts")
    }
}

/// Reads `ChromeDriver was started successfully on port 40401.`
fn started_on(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once("successfully on port ")?;
    rest.split('.').next()?.parse().ok()
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The browser does not end with what drives it.
        self.process.kill_all();
    }
}

impl Browser {
    pub async fn start() -> Result<Self> {
        let driver = Driver::start().await?;
        let profile = tempfile::tempdir()?;
        let data = format!("--user-data-dir={}", profile.path().display());
        let options = json!({ "args": [
            "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--hide-scrollbars", "--force-prefers-reduced-motion", data,
        ]});
        let wanted = json!({ "capabilities": { "alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" },
        }}});
        let mut connection = Connection::open(driver.port).await?;
        let answer = command(&mut connection, "POST", "/session", &wanted).await?;
        let session = answer["sessionId"]
            .as_str()
            .context("a session has an id")?;
        Ok(Self {
            session: session.to_owned(),
            connection: Mutex::new(connection),
            driver,
            _profile: profile,
        })
    }

    /// A page of another origin than any node, for scripts that ask across origins.
    pub fn elsewhere(&self) -> String {
        format!("http://localhost:{}/status", self.driver.port)
    }

    /// Loads a page and waits for all that it loads.
    pub async fn goto(&self, url: &str) -> Result<()> {
        self.order("url", &json!({ "url": url })).await.map(drop)
    }

    /// Loads a page and returns what became of it.
    pub async fn open(&self, url: &str) -> Result<Page> {
        self.complaints().await?;
        self.goto(url).await?;
        let dom = self
            .run("return document.documentElement.outerHTML")
            .await?;
        Ok(Page {
            dom: dom.as_str().unwrap_or_default().to_owned(),
            complaints: self.complaints().await?,
        })
    }

    /// Clones a repository with isomorphic-git, as a page of another origin would; returns the text
    /// of a file at its tip.
    pub async fn clone_in_page(&self, url: &str, file: &str) -> Result<String> {
        self.goto(&self.elsewhere()).await?;
        // What the client takes from node: modules that know each other by name.
        self.run("window.modules = {}").await?;
        for name in ["base64-js", "ieee754", "buffer"] {
            let (script, name) = (
                Value::from(browser_script(name, "index.js")?),
                Value::from(name),
            );
            let load = format!(
                "const module = {{ exports: {{}} }};
                 new Function('module', 'exports', 'require', {script})(
                   module, module.exports, (name) => window.modules[name]);
                 window.modules[{name}] = module.exports;"
            );
            self.run(&load).await?;
        }
        self.run("window.Buffer = window.modules.buffer.Buffer")
            .await?;
        // Each of these makes a name of the window.
        for (package, script) in [
            ("lightning-fs", "dist/lightning-fs.min.js"),
            ("isomorphic-git", "index.umd.min.js"),
            ("isomorphic-git", "http/web/index.umd.js"),
        ] {
            let script = browser_script(package, script)?;
            let script = Value::from(script).to_string();
            let load = format!(
                "const script = document.createElement('script');
                 script.textContent = {script}; document.head.append(script);"
            );
            self.run(&load).await?;
        }
        let (url, file) = (Value::from(url), Value::from(file));
        let cloned = self
            .run_async(&format!(
                "const fs = new LightningFS('clone');
                 await git.clone({{ fs, http: GitHttp, dir: '/r', url: {url}, singleBranch: true }});
                 return await fs.promises.readFile('/r/' + {file}, 'utf8');"
            ))
            .await?;
        Ok(cloned.as_str().context("a file is text")?.to_owned())
    }

    /// Runs the body of a function in the page.
    pub async fn run(&self, script: &str) -> Result<Value> {
        self.order("execute/sync", &json!({ "script": script, "args": [] }))
            .await
    }

    /// Runs the body of an async function in the page, to its end.
    pub async fn run_async(&self, script: &str) -> Result<Value> {
        let script = format!(
            "const done = arguments[0]; (async () => {{ {script} }})().then(\
             (value) => done({{ value }}), (error) => done({{ error: String(error) }}));"
        );
        let end = self
            .order("execute/async", &json!({ "script": script, "args": [] }))
            .await?;
        if let Some(error) = end["error"].as_str() {
            bail!("the script failed: {error}");
        }
        Ok(end["value"].clone())
    }

    /// Waits until an expression is true in the page.
    pub async fn until(&self, what: &str, expression: &str) -> Result<()> {
        let script = format!("return Boolean({expression})");
        until_ok(what, async || {
            Ok((self.run(&script).await? == true).then_some(()))
        })
        .await
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub async fn press(&self, keys: &[&str]) -> Result<()> {
        let strokes = keys
            .iter()
            .flat_map(|key| ["keyDown", "keyUp"].map(|kind| json!({ "type": kind, "value": key })));
        let strokes: Vec<_> = strokes.collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": strokes });
        let actions = json!({ "actions": [keyboard] });
        self.order("actions", &actions).await.map(drop)
    }

    /// The text and the attributes of what has the focus, to find it by.
    pub async fn focused(&self) -> Result<String> {
        let script = "return document.activeElement?.outerHTML.slice(0, 400) ?? ''";
        let focused = self.run(script).await?;
        Ok(focused.as_str().unwrap_or_default().to_owned())
    }

    /// Shows pages in a window of this width, as phones and screens do.
    pub async fn resize(&self, width: u32, height: u32) -> Result<()> {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        self.devtools("Emulation.setDeviceMetricsOverride", &size)
            .await
            .map(drop)
    }

    pub async fn prefer(&self, scheme: Scheme) -> Result<()> {
        let value = match scheme {
            Scheme::Light => "light",
            Scheme::Dark => "dark",
        };
        let feature = json!({ "name": "prefers-color-scheme", "value": value });
        self.devtools(
            "Emulation.setEmulatedMedia",
            &json!({ "features": [feature] }),
        )
        .await
        .map(drop)
    }

    /// Lets pages run scripts, or not.
    pub async fn allow_scripts(&self, is_allowed: bool) -> Result<()> {
        let disabled = json!({ "value": !is_allowed });
        self.devtools("Emulation.setScriptExecutionDisabled", &disabled)
            .await
            .map(drop)
    }

    /// What the browser complained of since it was asked last: refused styles, failed loads, errors
    /// of scripts.
    pub async fn complaints(&self) -> Result<Vec<String>> {
        let logged = self.order("se/log", &json!({ "type": "browser" })).await?;
        let lines = logged.as_array().context("a log is a list")?.iter();
        let lines = lines.filter_map(|line| line["message"].as_str());
        Ok(lines.map(str::to_owned).collect())
    }

    /// Serious findings of axe-core about the page, a line each.
    pub async fn axe(&self) -> Result<Vec<String>> {
        self.run(&browser_script("axe-core", "axe.min.js")?).await?;
        self.run_axe("{ resultTypes: ['violations'] }").await
    }

    /// The same of a page that was looked at before and has other colours now.
    pub async fn axe_of_colours(&self) -> Result<Vec<String>> {
        self.run_axe("{ runOnly: ['color-contrast', 'link-in-text-block'] }")
            .await
    }

    async fn run_axe(&self, options: &str) -> Result<Vec<String>> {
        let script = format!(
            "const found = await axe.run(document, {options});
             return found.violations
               .filter((v) => v.impact === 'serious' || v.impact === 'critical')
               .map((v) => `${{v.id}}: ${{v.nodes.length}}: ${{v.nodes[0].html}} `
                    + v.nodes[0].failureSummary);"
        );
        let found = self.run_async(&script).await?;
        let found = found.as_array().context("findings are a list")?.iter();
        Ok(found.map(|line| line.to_string()).collect())
    }

    /// The page as a PNG, from its top, `height` pixels at most.
    pub async fn screenshot(&self, width: u32, height: u32) -> Result<Vec<u8>> {
        let all = self
            .run("return document.documentElement.scrollHeight")
            .await?;
        let height = all.as_u64().map_or(height, |all| {
            u32::try_from(all).map_or(height, |all| all.min(height))
        });
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let wanted = json!({ "format": "png", "captureBeyondViewport": true, "clip": clip });
        let shot = self.devtools("Page.captureScreenshot", &wanted).await?;
        let data = shot["data"].as_str().context("a picture has data")?;
        Ok(STANDARD.decode(data)?)
    }

    async fn devtools(&self, name: &str, parameters: &Value) -> Result<Value> {
        let order = json!({ "cmd": name, "params": parameters });
        self.order("goog/cdp/execute", &order).await
    }

    async fn order(&self, name: &str, body: &Value) -> Result<Value> {
        let path = format!("/session/{}/{name}", self.session);
        let mut connection = self.connection.lock().await;
        command(&mut connection, "POST", &path, body).await
    }
}

async fn command(
    connection: &mut Connection,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<Value> {
    let headers = [("content-type", "application/json; charset=utf-8")];
    let body = body.to_string();
    let answer = connection
        .ask(method, path, &headers, body.as_bytes())
        .await?;
    let value = answer.json()?["value"].take();
    ensure!(
        answer.status == 200,
        "{path}: {}: {}",
        value["error"],
        value["message"]
    );
    Ok(value)
}
