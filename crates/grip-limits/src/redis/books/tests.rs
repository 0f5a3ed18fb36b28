use std::time::Duration;

use super::*;

fn host(number: usize) -> Domain {
    Domain::parse(&format!("h{number}.example")).unwrap()
}

#[tokio::test(start_paused = true)]
async fn who_watches_the_list_of_hosts_keeps_no_new_host_out() {
    let options = Options {
        max_domains: 3,
        ..Options::default()
    };
    let books = Books::new(options, 25);
    for number in 0..3 {
        books.open(&host(number), Instant::now()).unwrap();
    }
    for _ in 0..70 {
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(books.hosts().len(), 3);
    }
    books.open(&host(3), Instant::now()).unwrap();
    assert!(books.hosts().len() <= 3);
}
