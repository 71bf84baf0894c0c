//! Makes packets.

use super::pace::Pace;
use super::{Frame, PORT_BURST, Port, PortError, PortLoss};
use crate::buffers::Buffers;
use crate::traffic::{self, Traffic};
use chainline_chain::model;
use chainline_shm::{BufId, Clock, Desc, HEADROOM};
use chainline_workload::Workload;
use std::path::Path;

/// The port `generator`.
pub struct Generator {
    workload: Workload,
    pace: Pace,
    lossless: bool,
    left: u64,
    no_buffer: u64,
    started: bool,
    remarks: Vec<String>,
}

impl Generator {
    /// As the chain file describes it; the files that it names are relative to `dir`.
    ///
    /// # Errors
    /// When sizes, flows or addresses cannot be had together, or a file is none.
    pub fn open(dir: &Path, spec: &model::Generator, clock: &Clock) -> Result<Self, PortError> {
        let Traffic { spec: workload, schedule, remarks } = traffic::load(spec, dir)?;
        Ok(Self {
            workload: Workload::new(&workload)?,
            pace: Pace::scheduled(schedule, clock),
            lossless: spec.lossless(),
            left: spec.count.unwrap_or(u64::MAX),
            no_buffer: 0,
            started: false,
            remarks,
        })
    }
}

impl Port for Generator {
    fn receive(&mut self, max: usize, now: u64, buffers: &mut Buffers, got: &mut dyn FnMut(Frame)) {
        if !self.started {
            self.pace.start(now);
            self.started = true;
        }
        let max = max.min(PORT_BURST).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let n = self.pace.due_by(now, max);
        if n == 0 {
            return;
        }
        let mut indexes = [0; PORT_BURST];
        let indexes = &mut indexes[..n];
        let pace = &mut self.pace;
        if !buffers.alloc(indexes) {
            if !self.lossless {
                // Due, but there is nothing to put them in: received and lost.
                self.workload.burst(n, |_| {
                    pace.take(now);
                });
                self.no_buffer += n as u64;
                self.left -= n as u64;
            }
            return;
        }
        self.left -= n as u64;
        let mut next = indexes.iter();
        let mut loan = buffers.open();
        self.workload.burst(n, |frame| {
            let Some(&index) = next.next() else { return };
            let at = pace.take(now);
            let desc = Desc { buf: BufId::new(index, 0), off: HEADROOM, len: frame.len, ..Desc::default() };
            if let Some(data) = loan.take(desc).and_then(|buf| buf.get_mut(usize::from(HEADROOM)..)) {
                match data.first_chunk_mut::<64>() {
                    // A whole line at once: the processor need not read what it overwrites.
                    Some(line) if frame.len <= 64 => *line = frame.head.0,
                    // The region's buffers hold the largest frame of the mix.
                    _ => _ = frame.write(data),
                }
            }
            got(Frame { index, off: HEADROOM, len: frame.len, hash: Some(frame.flow_hash), at });
        });
    }

    fn exhausted(&self) -> bool {
        self.left == 0
    }

    fn lossless(&self) -> bool {
        self.lossless
    }

    fn due(&self) -> Option<u64> {
        self.pace.next()
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }

    fn loss(&self) -> PortLoss {
        PortLoss { no_buffer: self.no_buffer, ..PortLoss::default() }
    }
}
