//! Causes of failed requests in words: name, connection, certificate, time.

use std::{error::Error, io};

/// Why a request got no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Name,
    Refused,
    Certificate,
    Tls,
    TimedOut,
    Closed,
    Other,
}

impl Cause {
    /// Looks through an error and its sources.
    pub(crate) fn of(error: &(dyn Error + 'static)) -> Self {
        let mut text = String::new();
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(error) = error.downcast_ref::<reqwest::Error>()
                && error.is_timeout()
            {
                return Self::TimedOut;
            }
            if let Some(error) = error.downcast_ref::<rustls::Error>() {
                return Self::of_tls(error);
            }
            if let Some(error) = error.downcast_ref::<io::Error>() {
                // What rustls says is wrapped in one, and is no source of it.
                if let Some(error) = tls_error(error) {
                    return Self::of_tls(error);
                }
                match error.kind() {
                    // The server there does not speak TLS.
                    _ if error.to_string().contains("tls handshake") => return Self::Tls,
                    io::ErrorKind::ConnectionRefused => return Self::Refused,
                    io::ErrorKind::TimedOut => return Self::TimedOut,
                    io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
                    | io::ErrorKind::UnexpectedEof => return Self::Closed,
                    _ => {}
                }
            }
            text.push_str(&error.to_string().to_lowercase());
            text.push(' ');
            next = error.source();
        }
        if text.contains("dns error") || text.contains("failed to lookup address") {
            Self::Name
        } else if text.contains("certificate") {
            Self::Certificate
        } else if text.contains("closed") || text.contains("incomplete") {
            Self::Closed
        } else {
            Self::Other
        }
    }

    fn of_tls(error: &rustls::Error) -> Self {
        match error {
            rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => {
                Self::Certificate
            }
            _ => Self::Tls,
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Name => "the host name has no address",
            Self::Refused => "nothing listens there (connection refused)",
            Self::Certificate => "its certificate is not valid for this name, or has expired",
            Self::Tls => "it does not speak TLS as we do",
            Self::TimedOut => "no answer in time",
            Self::Closed => "it closed the connection before it answered",
            Self::Other => "the request failed",
        }
    }
}

/// What rustls says, however often it was wrapped on its way.
fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    let inner = error.get_ref()?;
    let own = inner.downcast_ref::<rustls::Error>();
    own.or_else(|| tls_error(inner.downcast_ref::<io::Error>()?))
}

/// The cause in one sentence, with the library's last word where we have none.
pub(crate) fn in_words(error: &(dyn Error + 'static)) -> String {
    let cause = Cause::of(error);
    if cause != Cause::Other {
        return cause.text().to_owned();
    }
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    format!("{}: {last}", cause.text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_libraries_are_told_in_words() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(Cause::of(&refused), Cause::Refused);
        let expired = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let wrapped = io::Error::new(io::ErrorKind::InvalidData, expired);
        assert_eq!(Cause::of(&wrapped), Cause::Certificate);
        let name =
            io::Error::other("failed to lookup address information: Name or service not known");
        assert_eq!(Cause::of(&name), Cause::Name);
        let twice = io::Error::other(io::Error::other(rustls::Error::DecryptError));
        assert_eq!(Cause::of(&twice), Cause::Tls);
        let other = io::Error::other("out of luck");
        assert_eq!(in_words(&other), "the request failed: out of luck");
    }
}
