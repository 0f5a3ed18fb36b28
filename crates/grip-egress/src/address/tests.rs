use super::*;

fn public_only() -> Rules {
    Rules::new(false, Vec::new())
}

fn anything() -> Rules {
    Rules::new(true, Vec::new())
}

fn refused(rules: &Rules, address: &str) -> Option<Special> {
    let host = Domain::parse("a.example").unwrap();
    rules.refuse(&host, address.parse().unwrap())
}

#[test]
fn g02_53_every_special_ipv4_block_is_refused_from_its_first_to_its_last_address() {
    for (first, last, special) in [
        ("0.0.0.1", "0.255.255.255", Special::Reserved),
        ("10.0.0.0", "10.255.255.255", Special::Private),
        ("100.64.0.0", "100.127.255.255", Special::Shared),
        ("127.0.0.0", "127.255.255.255", Special::Loopback),
        ("169.254.0.0", "169.254.255.255", Special::LinkLocal),
        ("172.16.0.0", "172.31.255.255", Special::Private),
        ("192.0.0.0", "192.0.0.255", Special::Reserved),
        ("192.0.2.0", "192.0.2.255", Special::Documentation),
        ("192.88.99.0", "192.88.99.255", Special::Transition),
        ("192.168.0.0", "192.168.255.255", Special::Private),
        ("198.18.0.0", "198.19.255.255", Special::Benchmarking),
        ("198.51.100.0", "198.51.100.255", Special::Documentation),
        ("203.0.113.0", "203.0.113.255", Special::Documentation),
        ("224.0.0.0", "239.255.255.255", Special::Multicast),
        ("240.0.0.0", "255.255.255.254", Special::Reserved),
        ("255.255.255.255", "255.255.255.255", Special::Broadcast),
        ("0.0.0.0", "0.0.0.0", Special::Unspecified),
    ] {
        for address in [first, last] {
            assert_eq!(refused(&public_only(), address), Some(special), "{address}");
        }
    }
}

#[test]
fn the_neighbours_of_special_blocks_are_public() {
    let addresses = "
        1.0.0.0 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
        169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255
        192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 168.63.129.15 2001:200::1 2003::1
        2606:4700::1111 2a00:1450::1 3ffe::1";
    for address in addresses.split_whitespace() {
        assert_eq!(refused(&public_only(), address), None, "{address}");
    }
}

#[test]
fn g02_53_special_ipv6_addresses_are_refused() {
    for (address, special) in [
        ("::", Special::Unspecified),
        ("::1", Special::Loopback),
        ("100::1", Special::Reserved),
        ("100:0:0:1::1", Special::Reserved),
        ("2001:0:7f00:1::", Special::Transition),
        ("2001:2::1", Special::Benchmarking),
        ("2001:10::1", Special::Reserved),
        ("2001:1ff::1", Special::Reserved),
        ("2001:db8::1", Special::Documentation),
        ("3fff::1", Special::Documentation),
        ("3fff:fff::1", Special::Documentation),
        ("4000::1", Special::Reserved),
        ("5f00::1", Special::Reserved),
        ("fc00::1", Special::Private),
        ("fd12:3456::1", Special::Private),
        ("fe80::1", Special::LinkLocal),
        ("febf::1", Special::LinkLocal),
        ("fec0::1", Special::Private),
        ("ff02::1", Special::Multicast),
        ("64:ff9b:1::1", Special::Transition),
        ("64:ff9b:2::1", Special::Reserved),
    ] {
        assert_eq!(refused(&public_only(), address), Some(special), "{address}");
    }
}

#[test]
fn metadata_addresses_of_clouds_are_refused() {
    let addresses = "
        169.254.169.254 169.254.170.2 168.63.129.16 100.100.100.200 192.0.0.192 fd00:ec2::254
        fd20:ce::254 ::ffff:169.254.169.254 64:ff9b::a9fe:a9fe";
    for address in addresses.split_whitespace() {
        assert!(refused(&public_only(), address).is_some(), "{address}");
    }
}

#[test]
fn g02_53_an_ipv4_address_inside_an_ipv6_address_decides() {
    for (address, special) in [
        ("::ffff:127.0.0.1", Some(Special::Loopback)),
        ("::ffff:10.1.2.3", Some(Special::Private)),
        ("::ffff:0.0.0.0", Some(Special::Unspecified)),
        ("::ffff:8.8.8.8", None),
        ("::127.0.0.1", Some(Special::Loopback)),
        ("::8.8.8.8", Some(Special::Transition)),
        ("64:ff9b::7f00:1", Some(Special::Loopback)),
        ("64:ff9b::c0a8:1", Some(Special::Private)),
        ("64:ff9b::808:808", None),
        ("2002:7f00:1::1", Some(Special::Loopback)),
        ("2002:a00:1::1", Some(Special::Private)),
        ("2002:808:808::1", None),
        // Written by translators instead of the mapped form.
        ("::ffff:0:127.0.0.1", Some(Special::Reserved)),
    ] {
        assert_eq!(refused(&public_only(), address), special, "{address}");
    }
}

#[test]
fn g02_55_an_operator_may_allow_all_but_what_is_no_host() {
    let addresses = "
        127.0.0.1 10.0.0.1 169.254.169.254 192.0.2.1 100.64.0.1 ::1 fd00::1 fe80::1
        ::ffff:127.0.0.1 2001:db8::1";
    for address in addresses.split_whitespace() {
        assert_eq!(refused(&anything(), address), None, "{address}");
    }
    let addresses = "
        0.0.0.0 224.0.0.1 255.255.255.255 :: ff02::1 ::ffff:0.0.0.0 ::ffff:224.0.0.1
        64:ff9b::e000:1 2002:ffff:ffff::1";
    for address in addresses.split_whitespace() {
        assert!(refused(&anything(), address).is_some(), "{address}");
    }
}

#[test]
fn a_host_that_the_operator_named_may_be_inside_but_no_place_of_secrets() {
    let rules = Rules::new(false, vec![Domain::parse("ghe.corp").unwrap()]);
    let ask = |host: &str, address: &str| {
        let host = Domain::parse(host).unwrap();
        rules.refuse(&host, address.parse().unwrap())
    };
    for address in ["10.0.0.1", "127.0.0.1", "192.168.1.1", "fd00::1", "8.8.8.8"] {
        assert_eq!(ask("GHE.corp", address), None, "{address}");
    }
    for host in ["other.corp", "x.ghe.corp", "ghe.corp.evil.net"] {
        assert_eq!(ask(host, "10.0.0.1"), Some(Special::Private), "{host}");
    }
    let addresses = "
        169.254.169.254 168.63.129.16 0.0.0.0 224.0.0.1 ::";
    for address in addresses.split_whitespace() {
        assert!(ask("ghe.corp", address).is_some(), "{address}");
    }
}
