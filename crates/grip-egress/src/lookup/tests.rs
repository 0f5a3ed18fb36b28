use super::*;

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn keep(found: &[&str]) -> Result<Vec<IpAddr>, Special> {
    let host = Domain::parse("a.example").unwrap();
    sift(&Rules::new(false, Vec::new()), &host, addresses(found))
}

#[test]
fn only_public_addresses_of_a_name_are_kept() {
    let found = [
        "10.0.0.1",
        "1.1.1.1",
        "::1",
        "2606:4700::1111",
        "169.254.169.254",
    ];
    assert_eq!(keep(&found), Ok(addresses(&["1.1.1.1", "2606:4700::1111"])));
}

#[test]
fn a_name_without_a_public_address_is_refused_with_what_it_leads_to() {
    assert_eq!(keep(&["10.0.0.1"]), Err(Special::Private));
    assert_eq!(keep(&["::ffff:127.0.0.1"]), Err(Special::Loopback));
    assert_eq!(keep(&[]), Ok(Vec::new()));
}

#[test]
fn only_the_first_addresses_of_a_name_are_tried() {
    let many = vec!["1.1.1.1"; 1000];
    assert_eq!(keep(&many).unwrap().len(), MAX_ADDRESSES);
}

#[tokio::test]
async fn the_operating_system_knows_this_machine() {
    let found = SystemLookup.lookup("localhost").await.unwrap();
    assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty());
}
