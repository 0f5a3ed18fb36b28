//! The declaration of an option, and the macro that turns a group of them into a typed struct.

use url::Url;

use super::kinds::{Kind, ParseError, Shape};

/// One setting of the node, with all that its users and documents need to know of it.
#[derive(Debug)]
pub(crate) struct Opt {
    /// Its name in `gripfast.toml`; flag and environment names follow from it.
    pub(crate) key: &'static str,
    help: &'static str,
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
    pub(crate) example: &'static str,
    /// Whether SIGHUP is enough for a change.
    pub(crate) live: bool,
    /// Whether it does something in this version; else it is known and checked only.
    pub(crate) has_effect: bool,
    /// Whether ngit-grasp has it, so that `NGIT_…` is read too.
    ngit: bool,
    /// A name in the environment that other programs use for the same thing.
    env_alias: Option<&'static str>,
    /// Whether the short help shows it.
    pub(crate) common: bool,
}

impl Opt {
    /// An option with effect that needs a restart; the methods below say otherwise.
    pub(crate) const fn new<K: Kind>(key: &'static str, help: &'static str) -> Self {
        Self {
            key,
            help,
            shape: K::SHAPE,
            placeholder: K::PLACEHOLDER,
            describe: K::describe,
            check: |text| K::parse(text).map(drop),
            default: None,
            derived: None,
            example: "",
            live: false,
            has_effect: true,
            ngit: false,
            env_alias: None,
            common: false,
        }
    }

    pub(crate) const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }

    pub(crate) const fn derived(mut self, how: &'static str) -> Self {
        self.derived = Some(how);
        self
    }

    pub(crate) const fn example(mut self, text: &'static str) -> Self {
        self.example = text;
        self
    }

    pub(crate) const fn live(mut self) -> Self {
        self.live = true;
        self
    }

    pub(crate) const fn no_effect(mut self) -> Self {
        self.has_effect = false;
        self
    }

    pub(crate) const fn ngit(mut self) -> Self {
        self.ngit = true;
        self
    }

    pub(crate) const fn env_alias(mut self, name: &'static str) -> Self {
        self.env_alias = Some(name);
        self
    }

    pub(crate) const fn common(mut self) -> Self {
        self.common = true;
        self
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

/// Declares a group of options and the struct of their values: the doc comment of a field is its
/// help, its type a [`Kind`], and what follows the default are methods of [`Opt`]. Options without
/// effect have no field: they are checked and shown only.
macro_rules! options {
    (
        $(#[$doc:meta])*
        $group:ident: $title:literal {
            $($(#[doc = $help:literal])+ $key:ident: $kind:ty $(= $default:literal)?
                $(, $note:ident $(($arg:expr))?)*;)+
        }
        $(no effect yet { $($idle:tt)* })?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $group {
            $($(#[doc = $help])+ pub(crate) $key: <$kind as $crate::config::kinds::Kind>::Value,)+
        }

        impl $group {
            pub(super) const TITLE: &str = $title;
            pub(super) const OPTIONS: &[$crate::config::Opt] = &[
                $($crate::config::Opt::new::<$kind>(stringify!($key), concat!($($help),+))
                    $(.default($default))? $(.$note($($arg)?))*,)+
            ];
            pub(super) const WITHOUT_EFFECT: &[$crate::config::Opt] =
                options!(@without_effect $($($idle)*)?);

            pub(super) fn read(values: &$crate::config::Values) -> Self {
                Self { $($key: values.read::<$kind>(stringify!($key)),)+ }
            }
        }
    };
    ($(#[$doc:meta])* $group:ident: $title:literal no effect yet { $($idle:tt)* }) => {
        $(#[$doc])*
        pub(crate) enum $group {}

        impl $group {
            pub(super) const TITLE: &str = $title;
            pub(super) const OPTIONS: &[$crate::config::Opt] = &[];
            pub(super) const WITHOUT_EFFECT: &[$crate::config::Opt] =
                options!(@without_effect $($idle)*);
        }
    };
    (@without_effect $($(#[doc = $help:literal])+ $key:ident: $kind:ty $(= $default:literal)?
        $(, $note:ident $(($arg:expr))?)*;)*) => {
        &[$($crate::config::Opt::new::<$kind>(stringify!($key), concat!($($help),+))
            $(.default($default))? $(.$note($($arg)?))*.no_effect(),)*]
    };
}
pub(super) use options;
