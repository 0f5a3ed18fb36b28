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
