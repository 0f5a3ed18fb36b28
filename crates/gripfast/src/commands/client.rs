//! Requests to the running node.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, bail};
use reqwest::Method;
use serde::de::DeserializeOwned;
use url::Url;

use crate::{
    admin_token,
    cli::NodeRequest,
    commands::{
        cause,
        table::{self, plain},
        when::Now,
    },
    config::{self, Environment, ProcessEnvironment, local_url},
    node, running,
};

/// Handlers read stores and may take longer than a probe.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longer than the node gives such work itself.
const LONG_PATIENCE: Duration = Duration::from_secs(310);

/// Bytes a second that a pack is read and checked with at least.
const SLOWEST_UPLOAD: u64 = 1 << 20;

/// What a request carries.
enum Body {
    Json(String),
    Pack(std::fs::File),
}

/// An HTTP response, read whole.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) body: String,
}

/// The node that a command asks.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    base: Url,
    /// Where it keeps its token.
    data_dir: PathBuf,
    request: &'a NodeRequest,
}

impl<'a> Node<'a> {
    pub(crate) fn new(request: &'a NodeRequest) -> anyhow::Result<Self> {
        let Place { url, data_dir } = place(request, &ProcessEnvironment)?;
        let base = Url::parse(&url).with_context(|| format!("{url} is no URL"))?;
        if base.cannot_be_a_base() {
            bail!("{base} is no URL of a node");
        }
        Ok(Self {
            base,
            data_dir,
            request,
        })
    }

    /// The data directory of the node, as far as this machine knows it.
    pub(crate) fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// How the node is called in sentences.
    pub(crate) fn name(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Reads a path of the API.
    pub(crate) fn get(&self, path: &[&str]) -> anyhow::Result<Response> {
        self.read(path, &[])
    }

    /// Reads; with the token where a private service asks for a proof, and never one that was named.
    fn read(&self, path: &[&str], parameters: &[(&str, &str)]) -> anyhow::Result<Response> {
        let url = self.url(path, parameters);
        let response = self.send(Method::GET, &url, None, None)?;
        // What is restricted is not there for who shows no token.
        if !matches!(response.status, 401 | 404) || self.request.url.is_some() {
            return Ok(response);
        }
        match self.token() {
            Ok(token) => self.send(Method::GET, &url, Some(&token), None),
            Err(_) => Ok(response),
        }
    }

    /// Reads data of which the operator sees more than others: with the token, where it is at hand and
    /// no other node was named.
    pub(crate) fn data_for_operator<T: DeserializeOwned>(
        &self,
        path: &[&str],
    ) -> anyhow::Result<T> {
        let token = self.token().ok().filter(|_| self.request.url.is_none());
        let response = self.send(Method::GET, &self.url(path, &[]), token.as_deref(), None)?;
        self.check(&response)?;
        self.parse(&response.body)
    }

    fn parse<T: DeserializeOwned>(&self, body: &str) -> anyhow::Result<T> {
        serde_json::from_str(body)
            .with_context(|| format!("{} gave a response that cannot be read", self.name()))
    }

    /// What [`Self::get`] reads as text, with parameters; anything but success is an error in the node's own words.
    pub(crate) fn text(
        &self,
        path: &[&str],
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<String> {
        let response = self.read(path, parameters)?;
        self.check(&response)?;
        Ok(response.body)
    }

    /// The same as data; anything but success is an error in the node's own words.
    pub(crate) fn data<T: DeserializeOwned>(
        &self,
        path: &[&str],
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<T> {
        self.parse(&self.text(path, parameters)?)
    }

    /// Shows the data of a path: as it is for `--json`, else as `render` lays it out.
    pub(crate) fn show<T: DeserializeOwned>(
        &self,
        path: &[&str],
        parameters: &[(&str, &str)],
        render: impl FnOnce(&T, Now) -> String,
    ) -> anyhow::Result<()> {
        let text = self.text(path, parameters)?;
        self.show_text(text, render)
    }

    /// Shows an answer in the same way, with no more entries of its lists than were asked for.
    pub(crate) fn show_text<T: DeserializeOwned>(
        &self,
        text: String,
        render: impl FnOnce(&T, Now) -> String,
    ) -> anyhow::Result<()> {
        if self.request.json {
            return self.show_json(text);
        }
        let data: T = self.parse(&limited(text, self.request.limit))?;
        table::print(&render(&data, Now::new()));
        Ok(())
    }

    /// Shows an answer as it is for programs, with no more entries of its lists than were asked for.
    pub(crate) fn show_json(&self, text: String) -> anyhow::Result<()> {
        let data: serde_json::Value = self.parse(&limited(text, self.request.limit))?;
        anstream::println!("{data:#}");
        Ok(())
    }

    /// Changes something, with the token of the data directory, and returns the response.
    pub(crate) fn change(
        &self,
        method: Method,
        path: &[&str],
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<String> {
        self.authorized(method, &self.url(path, parameters), None)
    }

    /// The same with a body of JSON.
    pub(crate) fn change_with(
        &self,
        method: Method,
        path: &[&str],
        body: String,
    ) -> anyhow::Result<String> {
        self.authorized(method, &self.url(path, &[]), Some(body))
    }

    fn authorized(
        &self,
        method: Method,
        url: &Url,
        body: Option<String>,
    ) -> anyhow::Result<String> {
        // Asked first, so that a node that does not run is named before a token that is missing.
        self.send(Method::GET, &self.url(&["healthz"], &[]), None, None)?;
        let token = self.token()?;
        let response = self.send(method, url, Some(&token), body)?;
        self.check(&response)?;
        Ok(response.body.trim_end().to_owned())
    }

    /// The same for what may take minutes.
    pub(crate) fn change_slowly(
        &self,
        method: Method,
        path: &[&str],
        parameters: &[(&str, &str)],
    ) -> anyhow::Result<String> {
        let token = self.token()?;
        let url = self.url(path, parameters);
        let response = ask(method, url.as_str(), Some(&token), None, LONG_PATIENCE)
            .map_err(|error| self.unanswered(&error))?;
        self.check(&response)?;
        Ok(response.body)
    }

    /// The same with a body that is read from a file, for as long as it takes.
    pub(crate) fn upload(
        &self,
        path: &[&str],
        parameters: &[(&str, &str)],
        file: std::fs::File,
    ) -> anyhow::Result<String> {
        let token = self.token()?;
        let bytes = file.metadata()?.len();
        let patience = LONG_PATIENCE + Duration::from_secs(bytes / SLOWEST_UPLOAD);
        let body = Body::Pack(file);
        let url = self.url(path, parameters);
        let response = ask(
            Method::POST,
            url.as_str(),
            Some(&token),
            Some(body),
            patience,
        );
        let response = response.map_err(|error| self.unanswered(&error))?;
        self.check(&response)?;
        Ok(response.body)
    }

    /// Changes something and says so: the response itself for `--json`, else `done`.
    pub(crate) fn order(
        &self,
        method: Method,
        path: &[&str],
        parameters: &[(&str, &str)],
        done: &str,
    ) -> anyhow::Result<()> {
        let response = self.change(method, path, parameters)?;
        let text = if self.request.json { &response } else { done };
        anstream::println!("{text}");
        Ok(())
    }

    /// Changes something and shows the response: as it is for `--json`, else as `render` lays it out.
    pub(crate) fn order_shown<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        parameters: &[(&str, &str)],
        render: impl FnOnce(&T, Now) -> String,
    ) -> anyhow::Result<()> {
        let response = self.change(method, path, parameters)?;
        if self.request.json {
            anstream::println!("{response}");
            return Ok(());
        }
        let data = serde_json::from_str(&response)
            .with_context(|| format!("{} gave a response that cannot be read", self.name()))?;
        table::print(&render(&data, Now::new()));
        Ok(())
    }

    /// Says in the node's words why an answer is no success.
    pub(crate) fn check(&self, response: &Response) -> anyhow::Result<()> {
        let message = message(&response.body);
        match response.status {
            200..300 => Ok(()),
            404 if !message.is_empty() => bail!("{message}"),
            status => bail!("{} says {status}: {message}", self.name()),
        }
    }

    fn token(&self) -> anyhow::Result<String> {
        let path = admin_token::path(&self.data_dir);
        admin_token::read(&path).with_context(|| {
            let hint = match path.try_exists() {
                Ok(true) => "run this as the user of the node",
                _ => "the running node makes it; name its data directory with --data-dir",
            };
            format!(
                "there is no admin token to read in {} ({hint})",
                path.display()
            )
        })
    }

    fn url(&self, path: &[&str], parameters: &[(&str, &str)]) -> Url {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .expect("because the base was looked at when it was read")
            .pop_if_empty()
            .extend(path);
        if !parameters.is_empty() {
            url.query_pairs_mut().extend_pairs(parameters);
        }
        url
    }

    fn send(
        &self,
        method: Method,
        url: &Url,
        token: Option<&str>,
        body: Option<String>,
    ) -> anyhow::Result<Response> {
        let body = body.map(Body::Json);
        let response = ask(method, url.as_str(), token, body, PATIENCE);
        response.map_err(|error| self.unanswered(&error))
    }

    fn unanswered(&self, error: &anyhow::Error) -> anyhow::Error {
        let named = self.request.flags.values.get("data_dir");
        let hint = match named {
            // Whatever listens there, it is not the node that was meant.
            Some(dir) if !node::is_data_dir(&self.data_dir) => {
                format!("no node was started in {dir}, or it is closed to this user")
            }
            _ => "is the node running? --data-dir or --url names another".to_owned(),
        };
        anyhow::anyhow!("no response from {}: {error}; {hint}", self.name())
    }
}

/// GETs `url` within `patience`.
pub(crate) fn fetch(url: &str, patience: Duration) -> anyhow::Result<Response> {
    ask(Method::GET, url, None, None, patience)
}

#[tokio::main(flavor = "current_thread")]
async fn ask(
    method: Method,
    url: &str,
    token: Option<&str>,
    body: Option<Body>,
    patience: Duration,
) -> anyhow::Result<Response> {
    // It follows no redirect: a token goes to the node that was named and nowhere else.
    let client = grip_egress::command_client()
        .timeout(patience)
        .user_agent(concat!("gripfast/", env!("CARGO_PKG_VERSION")))
        .build()?;
    let mut request = client
        .request(method, url)
        .header("accept", "application/json");
    if let Some(token) = token {
        request = request.bearer_auth(token);
    }
    request = match body {
        Some(Body::Json(text)) => request
            .header("content-type", "application/json")
            .body(text),
        Some(Body::Pack(file)) => request
            .header("content-type", "application/octet-stream")
            .body(tokio::fs::File::from_std(file)),
        None => request,
    };
    let in_words = |error: reqwest::Error| anyhow::anyhow!(cause::in_words(&error));
    let response = request.send().await.map_err(in_words)?;
    Ok(Response {
        status: response.status().as_u16(),
        body: response.text().await.map_err(in_words)?,
    })
}

/// Where a node answers, and where it keeps its token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) data_dir: PathBuf,
}

/// The node to ask: the one named, else the one configured here, else the one that runs on this
/// machine.
pub(crate) fn place(request: &NodeRequest, env: &dyn Environment) -> anyhow::Result<Place> {
    let loaded = config::load(&request.flags, env)?;
    let settings = &loaded.settings;
    let configured = Place {
        url: local_url(settings.reach.bind_address, settings.service().base()),
        data_dir: settings.storage.data_dir.clone(),
    };
    let is_given = |key: &str| !loaded.values[key].source.is_default();
    let named = request
        .url
        .as_deref()
        .map(|url| url.trim_end_matches('/').to_owned());
    let is_here = is_given("data_dir") || node::is_data_dir(&configured.data_dir);
    if is_here || (named.is_none() && is_given("bind_address")) {
        // It may listen elsewhere than the settings of this command say.
        let running = running::of(&configured.data_dir).filter(|_| !is_given("bind_address"));
        let named = named.or_else(|| running.map(|node| node.url));
        return Ok(Place {
            url: named.unwrap_or(configured.url),
            ..configured
        });
    }
    let mut running = running::nodes(env);
    if let Some(url) = &named {
        running.retain(|node| node.url == *url);
    }
    match &running[..] {
        [] => Ok(Place {
            url: named.unwrap_or(configured.url),
            ..configured
        }),
        [node] => Ok(Place {
            url: node.url.clone(),
            data_dir: node.data_dir.clone(),
        }),
        several => {
            let all = several.iter().map(|node| format!("--url {}", node.url));
            let all = all.collect::<Vec<_>>().join(", ");
            bail!("several nodes run on this machine; name one of them: {all}")
        }
    }
}

/// The text of a response for people: all of it, or the message of a JSON error.
fn message(body: &str) -> String {
    let shape: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let message = shape
        .as_ref()
        .and_then(|shape| shape["error"]["message"].as_str());
    message.map_or_else(|| body.trim().to_owned(), plain)
}

/// An answer with at most `limit` entries in each of its lists.
fn limited(answer: String, limit: Option<usize>) -> String {
    let Some(limit) = limit else {
        return answer;
    };
    let Ok(serde_json::Value::Object(mut fields)) = serde_json::from_str(&answer) else {
        return answer;
    };
    for list in fields.values_mut().filter_map(|it| it.as_array_mut()) {
        list.truncate(limit);
    }
    serde_json::Value::Object(fields).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::{Flags, tests::Fake},
        running::{Record, RunningNode},
    };

    #[test]
    fn lists_of_an_answer_have_as_many_entries_as_were_asked_for() {
        let answer = r#"{"held":[1,2,3],"total":3}"#.to_owned();
        assert_eq!(limited(answer.clone(), None), answer);
        assert_eq!(limited(answer, Some(2)), r#"{"held":[1,2],"total":3}"#);
        assert_eq!(limited("no JSON".to_owned(), Some(2)), "no JSON");
    }

    fn request(url: Option<&str>) -> NodeRequest {
        NodeRequest {
            flags: Flags::default(),
            url: url.map(str::to_owned),
            json: false,
            limit: None,
        }
    }

    #[test]
    fn the_node_that_runs_on_this_machine_is_found_without_being_named() {
        let dir = tempfile::tempdir().unwrap();
        let env = || Fake::default().env("XDG_RUNTIME_DIR", dir.path().to_str().unwrap());
        let url = "http://127.0.0.1:4711".to_owned();
        let node = RunningNode::this(url, &dir.path().join("data")).unwrap();
        let _record = Record::write(&node, &env());
        let found = place(&request(None), &env()).unwrap();
        assert_eq!(
            (found.url, found.data_dir),
            (node.url.clone(), node.data_dir.clone())
        );
        let named = place(&request(Some("http://127.0.0.1:4711/")), &env()).unwrap();
        assert_eq!(named.data_dir, node.data_dir);
        // A command beside the data directory finds where it listens, too.
        let beside = env().env("GRIPFAST_DATA_DIR", node.data_dir.to_str().unwrap());
        assert_eq!(place(&request(None), &beside).unwrap().url, node.url);
        // What was said counts.
        let told = env().env("GRIPFAST_BIND_ADDRESS", "127.0.0.1:99");
        assert_eq!(
            place(&request(None), &told).unwrap().url,
            "http://127.0.0.1:99"
        );
        let told = env().env("GRIPFAST_DATA_DIR", "/elsewhere");
        assert_eq!(
            place(&request(None), &told).unwrap().data_dir,
            Path::new("/elsewhere")
        );
        let other = place(&request(Some("https://other.example")), &env()).unwrap();
        assert_eq!(other.url, "https://other.example");
    }
}
