//! Reload of the configuration on SIGHUP: live options change at once.

use crate::config::{
    self, ConfigError, Environment, Flags, Loaded, Opt, Settings, Values, options,
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

/// Reads all sources again. A mistake anywhere leaves everything as it was.
pub(crate) fn read(
    before: &Loaded,
    flags: &Flags,
    env: &dyn Environment,
) -> Result<Reloaded, ConfigError> {
    let read = config::load(flags, env)?;
    let differs = |o: &&Opt| before.values[o.key].text != read.values[o.key].text;
    let of = |is_live: bool| {
        let changed = options::all().filter(|o| o.live == is_live).filter(differs);
        changed.map(|o| o.key).collect::<Vec<_>>()
    };
    let (changed, need_restart) = (of(true), of(false));
    let values = Values::choose(|o| if o.live { &read.values } else { &before.values });
    let loaded = Loaded {
        settings: Settings::read(&values),
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
        assert_eq!(reloaded.loaded.settings.relay_name(), "new");
        assert_eq!(reloaded.loaded.settings.limits.max_pack_bytes, 2 << 30);
        // What needs a restart is reported again the next time.
        let again = read(&reloaded.loaded, &Flags::default(), &after).unwrap();
        assert_eq!(again.changed, Vec::<&str>::new());
        assert_eq!(again.need_restart, ["max_pack_bytes"]);
    }

    #[test]
    fn a_mistake_changes_nothing_and_is_named() {
        let before = file("relay_name = \"old\"\n").loaded();
        let after = file("relay_name = \"new\"\nidle_timeout = \"soon\"\n");
        let error = read(&before, &Flags::default(), &after).unwrap_err();
        assert!(
            error.0[0].starts_with("gripfast.toml:2: idle_timeout"),
            "{error}"
        );
    }

    #[test]
    fn a_node_named_by_its_address_keeps_its_name() {
        let before = Fake::default().loaded();
        let after = Fake::default().file("gripfast.toml", "relay_contact = \"x\"\n");
        let reloaded = read(&before, &Flags::default(), &after).unwrap();
        assert_eq!(reloaded.changed, ["relay_contact"]);
        assert_eq!(reloaded.need_restart, Vec::<&str>::new());
        assert!(reloaded.loaded.settings.reach.domain.is_none());
    }
}
