//! Any bytes as a manifest or a node record: no panic, and what is read has these bytes and no others.
#![no_main]

use grip_resolve::{Manifest, ManifestId, NodeRecord};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(manifest) = Manifest::decode(data) {
        assert_eq!(manifest.bytes(), data);
        assert_eq!(manifest.id(), ManifestId::of(data));
        assert_eq!(manifest.join(&manifest), manifest);
    }
    let _ = NodeRecord::decode(data);
});
