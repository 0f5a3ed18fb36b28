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
    /// The same at the same time on a node that nobody attacks: it is as much slower as the machine.
    pub machine_alone: Outcomes,
    pub machine_beside: Outcomes,
    /// Bytes on the disk that the attack left.
    pub disk: u64,
    pub disk_budget: u64,
    /// Those of them that were there after the grace time.
    pub disk_lasting: u64,
    pub lasting_budget: u64,
    /// Resident memory of the node beyond that of the honest alone.
    pub memory: u64,
    /// The most resident memory of all git processes together.
    pub git_memory: u64,
}

/// How many times slower the honest may be beside an attack, beyond what the machine explains.
const MAX_SLOWER: f64 = 2.0;

pub(super) fn print_head() {
    println!(
        "| attack | addresses | acts | honest ok | p50, alone and beside | p99, alone and beside | \
         ratio p99 | of the machine | disk / budget | after the grace time | node / budget | \
         git / budget |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
}

impl Figures {
    /// How many times longer the honest waited at p99.
    fn slower(&self, operation: Operation) -> f64 {
        let [alone, beside] = [&self.alone, &self.beside].map(|it| it.percentile(operation, 99));
        ratio(alone, beside)
    }

    /// The same on the node that nobody attacked.
    fn machine_slower(&self, operation: Operation) -> f64 {
        let both = [&self.machine_alone, &self.machine_beside];
        let [alone, beside] = both.map(|it| it.percentile(operation, 99));
        ratio(alone, beside)
    }

    /// The operation that suffered most.
    fn worst(&self) -> Operation {
        let slower = |it: &&Operation| self.slower(**it);
        let worst = Operation::ALL
            .iter()
            .max_by(|one, other| slower(one).total_cmp(&slower(other)));
        *worst.expect("because there are operations")
    }

    /// The operations that are more than twice as slow as the machine explains.
    pub fn slow(&self) -> impl Iterator<Item = String> {
        let is_slow =
            |it: &&Operation| self.slower(**it) / self.machine_slower(**it).max(1.0) > MAX_SLOWER;
        Operation::ALL.iter().filter(is_slow).map(|operation| {
            format!(
                "{} from {}: {operation:?} {:.2} times slower at p99, the machine {:.2}",
                self.attack,
                self.addresses,
                self.slower(*operation),
                self.machine_slower(*operation),
            )
        })
    }

    /// Everything that is not as it must be, but for times: [`Self::slow`].
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
            within(
                "disk after the grace time",
                self.disk_lasting,
                self.lasting_budget,
            ),
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
        let worst = self.worst();
        let [p50_alone, p99_alone] = [50, 99].map(|p| alone.percentile(worst, p));
        let [p50_beside, p99_beside] = [50, 99].map(|p| beside.percentile(worst, p));
        write!(
            f,
            "| {} | {} | {} | {} of {} | {worst:?} {}, {} | {}, {} | {:.2} | {:.2} | {} / {} MiB \
             | {} / {} MiB | {} / {} MiB | {} / {} MiB |",
            self.attack,
            self.addresses,
            self.acts,
            beside.succeeded(),
            beside.succeeded() + beside.errors.len(),
            ms(p50_alone),
            ms(p50_beside),
            ms(p99_alone),
            ms(p99_beside),
            self.slower(worst),
            self.machine_slower(worst),
            self.disk / MIB,
            self.disk_budget / MIB,
            self.disk_lasting / MIB,
            self.lasting_budget / MIB,
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
