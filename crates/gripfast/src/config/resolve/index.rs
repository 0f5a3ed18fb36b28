//! The settings of the index and of the database it is kept in.

use std::path::Path;

use super::{Resolver, is_derived};
use crate::config::{
    parse,
    settings::{Database, DatabasePlace, GoProxy, Index},
};

/// The go command refuses larger modules.
const GO_MOST: u64 = 500 << 20;

impl Resolver<'_> {
    pub(super) fn database(&mut self, data_dir: &Path) -> Database {
        // A derived place is not read back: a directory may have a name that no URL can say.
        let named = (!is_derived(self.value("database_url")))
            .then(|| self.optional("database_url", parse::database_url))
            .flatten();
        let place = named.unwrap_or_else(|| {
            let file = data_dir.join("gripfast.sqlite");
            self.derive("database_url", &format!("sqlite:{}", file.display()));
            DatabasePlace::File(file)
        });
        Database {
            place,
            connections: self.count("database_connections"),
            node_name: self.optional("node_name", parse::name),
        }
    }

    pub(super) fn index(&mut self) -> Index {
        let modules = self.optional("index_modules", parse::module_owners);
        Index {
            enabled: self.get("index_enabled", parse::boolean),
            modules: modules.unwrap_or_default(),
            re_indexing_period: self.get("re_indexing_period", parse::duration),
            indexing_ttl: self.get("indexing_ttl", parse::duration),
            items_to_take: self.count("number_of_items_to_take"),
            workers: self.count("index_workers"),
            go_proxy: self.go_proxy(),
        }
    }

    fn go_proxy(&mut self) -> Option<GoProxy> {
        let zip_bytes = self.get("go_proxy_max_zip_bytes", parse::bytes);
        if zip_bytes > GO_MOST {
            self.complain(
                "go_proxy_max_zip_bytes",
                "is more than the go command takes, which is 500 MiB",
            );
        }
        self.get("go_proxy", parse::boolean).then(|| GoProxy {
            zip_bytes,
            zips: self.count("go_proxy_max_zips"),
        })
    }
}
