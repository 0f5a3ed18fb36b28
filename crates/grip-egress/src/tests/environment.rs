//! Environment variables of the process change nothing.

use super::{
    host::{Host, OTHER_PUBLIC, PUBLIC, fine},
    support::client,
};

/// Set in the process that does the asking.
const INSIDE: &str = "GRIP_EGRESS_TEST_WITH_PROXY";

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "only a process of its own has an environment of its own"
)]
fn no_proxy_of_the_environment_is_used() {
    if std::env::var_os(INSIDE).is_some() {
        return ask();
    }
    let runtime = runtime();
    let proxy = runtime.block_on(Host::on(OTHER_PUBLIC, |_| fine("proxied")));
    let url = format!("http://{}", proxy.address);
    let name = "tests::environment::no_proxy_of_the_environment_is_used";
    let mut asking = std::process::Command::new(std::env::current_exe().unwrap());
    asking.args(["--exact", name]).env(INSIDE, "1");
    let variables = "
        http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY";
    for variable in variables.split_whitespace() {
        asking.env(variable, &url);
    }
    let output = asking
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}"
    );
    assert_eq!(proxy.connections(), 0);
}

fn ask() {
    runtime().block_on(async {
        assert!(std::env::var_os("http_proxy").is_some());
        let host = Host::on(PUBLIC, |_| fine("straight")).await;
        let client = client();
        for url in [host.url("/"), host.named("public.example", "/")] {
            assert_eq!(client.fetch(url).await.unwrap(), "straight");
        }
    });
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().unwrap()
}
