use proptest::prelude::*;

use super::validate::check;

#[test]
fn relay_7_malformed_messages_are_told_from_well_formed_ones() {
    let good: [&[u8]; 6] = [
        &[0x61],
        &[0x61, 0, 0, 0],
        &[0x61, 0, 0, 2, 0],
        // Up to time 10, then to infinity.
        &[0x61, 11, 0, 0, 0, 0, 0],
        // A bound with an id prefix.
        &[0x61, 11, 2, 0xab, 0xcd, 0],
        // Another version: answered with ours.
        &[0x62, 1, 2, 3],
    ];
    for message in good {
        assert_eq!(check(message), Ok(()), "{message:x?}");
    }
    let bad: [&[u8]; 8] = [
        &[],
        &[0x61, 0],
        &[0x61, 0, 33],
        &[0x61, 0, 2, 0xab],
        &[0x61, 0, 0, 3],
        &[0x61, 0, 0, 2, 5],
        // Over-long zero.
        &[0x61, 0x80, 0x00, 0, 0],
        // A range after infinity.
        &[0x61, 0, 0, 0, 1, 0, 0],
    ];
    for message in bad {
        assert!(check(message).is_err(), "{message:x?}");
    }
}

proptest! {
    #[test]
    fn relay_7_the_library_reads_whatever_passes_the_check(mut message in any::<Vec<u8>>()) {
        message.insert(0, 0x61);
        let mut storage = negentropy::NegentropyStorageVector::new();
        for n in 0..100u8 {
            storage.insert(n.into(), negentropy::Id::from_byte_array([n; 32])).unwrap();
        }
        storage.seal().unwrap();
        if check(&message).is_ok() {
            let mut side = negentropy::Negentropy::borrowed(&storage, 4_096).unwrap();
            prop_assert!(side.reconcile(&message).is_ok());
        }
    }
}
