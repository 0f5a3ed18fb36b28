//! The engines' error codes, as far as they call for different action.

use sqlx::postgres::PgDatabaseError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorCode {
    Locked,
    ReadOnly,
    Io,
    Damaged,
    Full,
    Unreachable,
    Conflict,
    Slow,
    Other,
}

impl ErrorCode {
    pub(super) fn of(error: &sqlx::Error) -> Self {
        if let Some(error) = postgres_error(error) {
            return Self::of_state(error.code());
        }
        let code = error.as_database_error().and_then(|e| e.code());
        let Some(code) = code.and_then(|code| code.parse::<u32>().ok()) else {
            return match error {
                sqlx::Error::Io(_) => Self::Io,
                sqlx::Error::PoolTimedOut => Self::Locked,
                // A row that cannot be read as what the schema promises.
                sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Self::Damaged,
                _ => Self::Other,
            };
        };
        // The low byte is the primary code, the rest its details.
        match code & 0xff {
            5 | 6 => Self::Locked,
            8 => Self::ReadOnly,
            10 => Self::Io,
            11 | 26 => Self::Damaged,
            13 => Self::Full,
            14 => Self::Unreachable,
            _ => Self::Other,
        }
    }

    /// Of a connection to a server: where SQLite's disk fails, its line does.
    pub(super) fn of_server(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed => Self::Unreachable,
            error => Self::of(error),
        }
    }

    /// Postgres names its reasons by SQLSTATE; the first two characters are the class.
    fn of_state(code: &str) -> Self {
        match code {
            "53100" => Self::Full,
            "25006" | "42501" => Self::ReadOnly,
            "55P03" => Self::Locked,
            "57014" => Self::Slow,
            "25P03" => Self::Unreachable,
            "XX001" | "XX002" => Self::Damaged,
            _ => match code.get(..2).unwrap_or_default() {
                "08" | "28" | "3D" | "53" | "57" => Self::Unreachable,
                "40" => Self::Conflict,
                "58" => Self::Io,
                _ => Self::Other,
            },
        }
    }
}

pub(super) fn postgres_error(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}
