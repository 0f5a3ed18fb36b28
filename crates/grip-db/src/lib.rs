#![doc = include_str!("../README.md")]

mod clock;
mod connection;
mod database;
mod error;
mod from_row;
mod statement;
#[cfg(test)]
mod test_rows;
#[cfg(any(test, feature = "testing"))]
mod testing;
mod topics;
mod value;
mod work;
mod writer;

/// For [`from_row!`] alone.
#[doc(hidden)]
pub use {from_row::__converted, sqlx as __sqlx};

pub use connection::{Connection, FromRows};
pub use database::{
    Db, Engine, Fence, Location, OnProgress, RowsError, RowsTaken, Server, WritePermit, WriterStats,
};
pub use error::{DbError, OpenError, ServerError};
pub use statement::Statement;
#[cfg(any(test, feature = "testing"))]
pub use testing::{TestDatabase, plan, prepare_all};
pub use value::{Column, Value};
