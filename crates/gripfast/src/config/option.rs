//! The declaration of an option, and the macro that turns a group of them into a typed struct.

use url::Url;

use super::kinds::{Kind, ParseError, Shape};

/// One setting of the node, with all that its users and documents need to know of it.
#[derive(Debug)]
pub(crate) struct Opt {
    /// Its name in `gripfast.toml`; flag and environment names follow from it.
    pub(crate) key: &'static str,
    pub(super) help: &'static str,
    pub(crate) shape: Shape,
    /// What stands for the value in help texts.
    pub(crate) placeholder: &'static str,
    /// How the reference names the kind of its values.
    pub(crate) describe: fn() -> String,
    pub(crate) check: fn(&str) -> Result<(), ParseError>,
    pub(crate) default: Option<&'static str>,
    /// How the default follows from other settings.
    pub(crate) derived: Option<&'static str>,
    /// What the example file shows where there is no default.
    pub(crate) example: Option<&'static str>,
    /// Whether SIGHUP is enough for a change.
    pub(crate) live: bool,
    /// Why it cannot do anything here, and is known and checked only.
    pub(crate) meaningless: Option<&'static str>,
    /// Whether ngit-grasp has it, so that `NGIT_…` is read too.
    pub(super) ngit: bool,
    /// A name in the environment that other programs use for the same thing.
    pub(super) env_alias: Option<&'static str>,
    /// Whether the short help shows it.
    pub(crate) common: bool,
}

impl Opt {
    /// An option without a default that needs a restart; what the table notes is set over this.
    pub(super) const fn new<K: Kind>(key: &'static str, help: &'static str) -> Self {
        Self {
            key,
            help,
            shape: K::SHAPE,
            placeholder: K::PLACEHOLDER,
            describe: K::describe,
            check: |text| K::parse(text).map(drop),
            default: None,
            derived: None,
            example: None,
            live: false,
            meaningless: None,
            ngit: false,
            env_alias: None,
            common: false,
        }
    }

    /// Whether it does something.
    pub(crate) fn has_effect(&self) -> bool {
        self.meaningless.is_none()
    }

    /// Sentences that explain it; the first is what `-h` shows.
    pub(crate) fn help(&self) -> &'static str {
        self.help.trim_start()
    }

    /// `bind-address`, as the command line names it after two dashes.
    pub(crate) fn flag(&self) -> String {
        self.key.replace('_', "-")
    }

    /// Environment names, the strongest first.
    pub(crate) fn env_names(&self) -> Vec<String> {
        let key = self.key.to_ascii_uppercase();
        let ngit = self.ngit.then(|| format!("NGIT_{key}"));
        let alias = self.env_alias.map(str::to_owned);
        let names = [Some(format!("GRIPFAST_{key}")), ngit, alias];
        names.into_iter().flatten().collect()
    }

    /// The value as it may be shown to anybody.
    pub(crate) fn shown(&self, text: &str) -> String {
        match self.shape {
            Shape::Secret | Shape::SecretList => MASK.to_owned(),
            Shape::SecretUrl => without_password(text),
            _ => text.to_owned(),
        }
    }
}

/// What is shown of a secret.
const MASK: &str = "••••••";

/// Host and path of a URL; user, password and parameters, any of which may be secret, are hidden.
fn without_password(text: &str) -> String {
    let Ok(url) = Url::parse(text) else {
        return MASK.to_owned();
    };
    if !url.has_host() {
        return text.to_owned();
    }
    let has_user = !url.username().is_empty() || url.password().is_some();
    let user = if has_user {
        format!("{MASK}@")
    } else {
        String::new()
    };
    let port = url.port().map(|p| format!(":{p}")).unwrap_or_default();
    let query = url.query().map(|_| format!("?{MASK}")).unwrap_or_default();
    let host = url.host_str().unwrap_or_default();
    format!("{}://{user}{host}{port}{}{query}", url.scheme(), url.path())
}

/// Declares the options by group, the struct of each group's values, and [`Settings`] over all of
/// them: the doc comment of a field is its help, its type a [`Kind`], and what follows the default
/// are fields of [`Opt`]. Options that mean nothing here have no field: they are checked and shown only,
/// with the reason.
///
/// [`Settings`]: super::Settings
macro_rules! options {
    ($($title:literal
        $(in $field:ident: $group:ident {
            $($(#[doc = $help:literal])+ $key:ident: $kind:ty $(= $default:literal)?
                $(, $note:ident $(($arg:expr))?)*;)+
        })?
        $(meaningless {
            $($(#[doc = $idle_help:literal])+ $idle_key:ident: $idle_kind:ty
                $(= $idle_default:literal)?, because $why:literal
                $(, $idle_note:ident $(($idle_arg:expr))?)*;)+
        })?
    )+) => {
        $($(
            #[doc = $title]
            #[derive(Clone, Debug)]
            pub(crate) struct $group {
                $($(#[doc = $help])+ pub(crate) $key: <$kind as Kind>::Value,)+
            }
        )?)+

        pub(crate) static GROUPS: &[Group] = &[$(Group {
            title: $title,
            options: &[
                $($(options!(@option $kind, $key, [$($help)+] $(, default($default))?
                    $(, $note $(($arg))?)*),)+)?
                $($(options!(@option $idle_kind, $idle_key, [$($idle_help)+], meaningless($why)
                    $(, default($idle_default))? $(, $idle_note $(($idle_arg))?)*),)+)?
            ],
        }),+];

        /// The typed value of every option; what follows from several of them are methods.
        #[derive(Clone, Debug)]
        pub(crate) struct Settings {
            $($(pub(crate) $field: $group,)?)+
        }

        impl Settings {
            /// Takes values that were checked.
            pub(crate) fn read(values: &Values) -> Self {
                Self {
                    $($($field: $group { $($key: values.read::<$kind>(stringify!($key)),)+ },)?)+
                }
            }
        }
    };
    (@option $kind:ty, $key:ident, [$($help:literal)+]
        $(, $note:ident $(($arg:expr))?)*) => {
        Opt {
            $($note: options!(@value $($arg)?),)*
            ..Opt::new::<$kind>(stringify!($key), concat!($($help),+))
        }
    };
    (@value) => { true };
    (@value $arg:expr) => { Some($arg) };
}
pub(super) use options;
