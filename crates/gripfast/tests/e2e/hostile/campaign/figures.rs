//! Figures of one attack, and whether they are within bounds.

use std::{fmt, os::unix::fs::MetadataExt as _, path::Path, time::Duration};

use super::{GIT_BUDGET, MIB, NODE_BUDGET, Outcomes, honest::Operation};

pub(super) struct Figures {
    pub attack: &'static str,
    pub addresses: usize,
    /// What the attackers did meanwhile, in all.
    pub acts: u64,
    pub alone: Outcomes,
    pub beside: Outcomes,
    /// Bytes on the disk that the attack left.
    pub disk: u64,
    pub disk_budget: u64,
    /// Resident memory of the node beyond that of the honest alone.
    pub memory: u64,
    /// The most resident memory of all git processes together.
    pub git_memory: u64,
}

pub(super) fn print_head() {
    println!(
        "| attack | addresses | acts | honest ok | p50, alone and beside | p99, alone and beside | \
         ratio p99 | the machine's own | disk / budget | node / budget | git / budget |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
}

impl Figures {
    /// Everything that is not as it must be. Times are not among it: they are the machine's.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |is_so: bool, fault: String| {
            if !is_so {
                faults.push(format!("{} from {}: {fault}", self.attack, self.addresses));
            }
        };
        check(self.acts > 0, "the attackers did nothing".to_owned());
        for error in &self.beside.errors {
            check(false, error.clone());
        }
        for error in &self.alone.errors {
            check(false, format!("alone already: {error}"));
        }
        let within = |what: &str, bytes: u64, budget: u64| {
            (
                bytes <= budget,
                format!("{what}: {bytes} of {budget} bytes"),
            )
        };
        for (is_so, fault) in [
            within("disk", self.disk, self.disk_budget),
            within("memory of the node", self.memory, NODE_BUDGET),
            within("memory of git", self.git_memory, GIT_BUDGET),
        ] {
            check(is_so, fault);
        }
        faults
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (alone, beside) = (&self.alone, &self.beside);
        let worst = Operation::ALL.iter().max_by(|one, other| {
            let ratio = |operation: &Operation| {
                ratio(
                    alone.percentile(*operation, 99),
                    beside.percentile(*operation, 99),
                )
            };
            ratio(one).total_cmp(&ratio(other))
        });
        let worst = *worst.expect("because there are operations");
        let [p50_alone, p99_alone] = [50, 99].map(|p| alone.percentile(worst, p));
        let [p50_beside, p99_beside] = [50, 99].map(|p| beside.percentile(worst, p));
        write!(
            f,
            "| {} | {} | {} | {} of {} | {worst:?} {}, {} | {}, {} | {:.2} | {:.2} | {} / {} MiB \
             | {} / {} MiB | {} / {} MiB |",
            self.attack,
            self.addresses,
            self.acts,
            beside.succeeded(),
            beside.succeeded() + beside.errors.len(),
            ms(p50_alone),
            ms(p50_beside),
            ms(p99_alone),
            ms(p99_beside),
            ratio(p99_alone, p99_beside),
            ratio(
                alone.percentile(Operation::Machine, 99),
                beside.percentile(Operation::Machine, 99)
            ),
            self.disk / MIB,
            self.disk_budget / MIB,
            self.memory / MIB,
            NODE_BUDGET / MIB,
            self.git_memory / MIB,
            GIT_BUDGET / MIB,
        )
    }
}

fn ratio(alone: Duration, beside: Duration) -> f64 {
    beside.as_secs_f64() / alone.as_secs_f64().max(1e-6)
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1_000.0)
}

/// Bytes that the files below `directory` take on the disk; those that vanish meanwhile take none.
pub(super) fn disk_bytes(directory: &Path) -> u64 {
    let mut bytes = 0;
    let mut pending = vec![directory.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => pending.push(entry.path()),
                Ok(metadata) => bytes += metadata.blocks() * 512,
                Err(_) => {}
            }
        }
    }
    bytes
}
