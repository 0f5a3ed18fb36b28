//! Capabilities of a pushing client.

/// The capabilities of a push that change how it is answered; others are ignored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The client reads a report: `report-status` or `report-status-v2`.
    pub report_status: bool,
    pub side_band_64k: bool,
    pub atomic: bool,
    pub quiet: bool,
    pub push_options: bool,
    pub object_format: Option<String>,
    pub agent: Option<String>,
}

impl Capabilities {
    /// Reads what follows the NUL of the first command, with or without a space in front.
    pub fn parse(text: &[u8]) -> Self {
        let mut capabilities = Self::default();
        for word in String::from_utf8_lossy(text).split_ascii_whitespace() {
            match word.split_once('=').unwrap_or((word, "")) {
                ("report-status" | "report-status-v2", _) => capabilities.report_status = true,
                ("side-band-64k", _) => capabilities.side_band_64k = true,
                ("atomic", _) => capabilities.atomic = true,
                ("quiet", _) => capabilities.quiet = true,
                ("push-options", _) => capabilities.push_options = true,
                ("object-format", format) => capabilities.object_format = Some(format.to_owned()),
                ("agent", agent) => capabilities.agent = Some(agent.to_owned()),
                _ => {}
            }
        }
        capabilities
    }
}
