//! Go's rules for modules: paths, versions, go.mod, zips.
