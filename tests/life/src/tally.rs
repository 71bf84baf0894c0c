//! An NF whose replicas count packets by source in one table, and one of which dies with the table's lock.

use chainline_nf::{Burst, Ctx, Env, Error, Nf, SharedCounts, SharedKey, TableSpec};
use chainline_shm::Counts;
use chainline_shm::counts::Shape;
use rustix::process::{Signal, getpid, kill_process};
use schemars::JsonSchema;
use serde::Deserialize;

const ENTRIES: u32 = 64;

pub(crate) struct Tally {
    table: Option<Box<dyn SharedCounts>>,
    refused: u64,
    seen: u64,
    /// Packets after which this life ends.
    dies_after: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TallyArgs {
    /// Name of a script whose lines are lives of the first replica: `grab N`.
    script: String,
}

impl Nf for Tally {
    const KIND: &'static str = "tally";
    const ABOUT: &'static str = "counts with its replicas";
    type Args = TallyArgs;

    fn new(args: TallyArgs, env: &mut Env<'_>) -> Result<Self, Error> {
        env.share(TableSpec { entries: ENTRIES })?;
        let script = env.path(format!("{}.script", args.script));
        let line = if env.replica() == 0 { crate::script::next_life(&script) } else { None };
        let dies_after = line.map(|line| crate::script::word(&line).1);
        Ok(Self { table: None, refused: 0, seen: 0, dies_after })
    }

    fn shared(&mut self, table: Box<dyn SharedCounts>) {
        self.table = Some(table);
    }

    fn process(&mut self, burst: &mut Burst<'_>, _: &mut Ctx<'_>) {
        let keys: Vec<SharedKey> =
            burst.packets().iter().map(|p| std::array::from_fn(|i| if i < 4 { p.data()[26 + i] } else { 0 })).collect();
        let bytes: Vec<u16> = burst.packets().iter().map(|p| p.len() as u16).collect();
        self.refused += self.table.as_mut().unwrap().count(&keys, &bytes).refused;
        self.seen += keys.len() as u64;
        if self.dies_after.is_some_and(|n| self.seen >= n) {
            die_with_the_lock();
        }
    }

    fn report(&self) -> Option<String> {
        let mut counted = 0;
        self.table.as_ref()?.for_each(&mut |_, packets, _| counted += packets);
        Some(format!("{counted} {}", self.refused))
    }
}

/// Takes the lock of the table's memory, as the kernel knows it, and is killed.
fn die_with_the_lock() {
    for fd in std::fs::read_dir("/proc/self/fd").unwrap().flatten() {
        if std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().contains("chainline-table")) {
            let memory = std::fs::File::options().read(true).write(true).open(fd.path()).unwrap();
            let shape = Shape::new(ENTRIES, true);
            Counts::open(memory.into(), shape, chainline_shm::PageKind::Small, 0).unwrap().hold_for_ever();
            kill_process(getpid(), Signal::KILL).unwrap();
        }
    }
    panic!("no table");
}
