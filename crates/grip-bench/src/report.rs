//! The table that a run prints.

/// Rows of `path, value, floor, ratio, peer`.
#[derive(Default)]
pub struct Table {
    rows: Vec<[String; 5]>,
}

impl Table {
    /// Adds a row; `floor` names what it is and its value.
    pub fn row(&mut self, path: &str, value: String, floor: &str, ratio: Option<f64>, peer: &str) {
        let ratio = ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"));
        let row = [
            path.to_owned(),
            value,
            floor.to_owned(),
            ratio,
            peer.to_owned(),
        ];
        eprintln!("  {}", row.join(" · "));
        self.rows.push(row);
    }

    pub fn print(&self) {
        println!("| path | gripfast | floor in this run | ratio | peer, recorded |");
        println!("|---|---|---|---|---|");
        for row in &self.rows {
            println!("| {} |", row.join(" | "));
        }
    }
}

/// The middle of `values`, which are not empty.
pub fn median(values: &mut [f64]) -> f64 {
    percentile(values, 0.5)
}

/// The value below which `part` of all lie.
pub fn percentile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() - 1) as f64 * part).round() as usize;
    values[at]
}

pub fn mib(bytes: u64) -> String {
    format!("{:.0} MiB", bytes as f64 / 1_048_576.0)
}
