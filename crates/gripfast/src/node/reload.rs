//! SIGHUP: the configuration is read anew, and what may change changes at once.

use std::collections::BTreeMap;

use crate::config::{
    self, Flags, Invalid, Loaded, Reload, Settings, Surroundings, Value, table::OPTIONS,
};

/// What a reload changed.
#[derive(Debug)]
pub(crate) struct Reloaded {
    /// What counts from now on: live options as read, all others as before.
    pub(crate) loaded: Loaded,
    pub(crate) changed: Vec<&'static str>,
    /// Changed in the file, but not before the next start.
    pub(crate) need_restart: Vec<&'static str>,
}

/// Reads all layers again. A mistake anywhere leaves everything as it was.
pub(crate) fn read(
    before: &Loaded,
    flags: &Flags,
    around: &dyn Surroundings,
) -> Result<Reloaded, Invalid> {
    let read = config::load(flags, around)?;
    let differs = |key: &str| before.values[key].text != read.values[key].text;
    let of = |kind: Reload| {
        let options = OPTIONS.iter().filter(move |o| o.reload == kind);
        options
            .map(|o| o.key)
            .filter(|key| differs(key))
            .collect::<Vec<_>>()
    };
    let (changed, need_restart) = (of(Reload::Live), of(Reload::Restart));
    let values: BTreeMap<&'static str, Value> = OPTIONS
        .iter()
        .map(|option| {
            let from = if option.reload == Reload::Live {
                &read
            } else {
                before
            };
            (option.key, from.values[option.key].clone())
        })
        .collect();
    let loaded = Loaded {
        settings: Settings::from_checked(&values, around)?,
        values,
        warnings: read.warnings,
    };
    Ok(Reloaded {
        loaded,
        changed,
        need_restart,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::Fake;

    fn file(text: &str) -> Fake {
        Fake::default()
            .env("NGIT_DOMAIN", "a.example")
            .file("gripfast.toml", text)
    }

    #[test]
    fn live_options_change_and_the_others_wait_for_a_restart() {
        let before = file("relay_name = \"old\"\n").loaded();
        let after = file("relay_name = \"new\"\nmax_pack_bytes = \"1 GiB\"\n");
        let reloaded = read(&before, &Flags::default(), &after).unwrap();
        assert_eq!(reloaded.changed, ["relay_name"]);
        assert_eq!(reloaded.need_restart, ["max_pack_bytes"]);
        assert_eq!(reloaded.loaded.settings.relay_name, "new");
        assert_eq!(reloaded.loaded.settings.limits.pack_bytes, 2 << 30);
        // What waits for a restart is said again the next time.
        let again = read(&reloaded.loaded, &Flags::default(), &after).unwrap();
        assert_eq!(again.changed, Vec::<&str>::new());
        assert_eq!(again.need_restart, ["max_pack_bytes"]);
    }

    #[test]
    fn a_mistake_changes_nothing_and_is_named() {
        let before = file("relay_name = \"old\"\n").loaded();
        let after = file("relay_name = \"new\"\nidle_timeout = \"soon\"\n");
        let invalid = read(&before, &Flags::default(), &after).unwrap_err();
        assert!(
            invalid.0[0].starts_with("gripfast.toml:2: idle_timeout"),
            "{invalid}"
        );
    }

    #[test]
    fn a_node_named_by_its_address_keeps_its_name() {
        let before = Fake::default().loaded();
        let after = Fake::default().file("gripfast.toml", "relay_contact = \"x\"\n");
        let reloaded = read(&before, &Flags::default(), &after).unwrap();
        assert_eq!(reloaded.changed, ["relay_contact"]);
        assert_eq!(reloaded.need_restart, Vec::<&str>::new());
        assert!(reloaded.loaded.settings.service_is_address);
    }
}
