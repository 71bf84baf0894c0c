//! Makes packets: on its own, or, in a steered run, one trial after the other.

use super::pace::Pace;
use super::{Frame, Frames, PORT_BURST, Port, PortError, PortLoss};
use crate::buffers::Buffers;
use crate::dataplane::Span;
use crate::traffic::{self, Traffic};
use chainline_chain::model;
use chainline_shm::region::Loan;
use chainline_shm::{BufId, Clock, Desc, HEADROOM};
use chainline_workload::{self as workload, Stamp, Workload, stamp_at};
use std::path::Path;

/// How a trial drives a generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Drive {
    /// So many frames a second, whether there is room or not.
    Paced(f64),
    /// As fast as it can, whether there is room or not.
    Max,
    /// As fast as there is room.
    Lossless,
}

/// When a trial's frames are due: ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The first frame.
    pub begin: u64,
    /// The measured window's begin.
    pub from: u64,
    /// And its end: from here on nothing is due.
    pub until: u64,
}

/// What a generator did in a trial's window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Frames that were due.
    pub intended: u64,
    /// Frames that it made.
    pub made: u64,
    /// Of these, lost at once as there was no free buffer.
    pub no_buffer: u64,
    /// The longest time from due to made, in ticks.
    pub worst_late: u64,
}

/// Writes the stamps of a generator's frames.
#[derive(Clone)]
struct Stamps {
    stream: u8,
    trial: u8,
    clock: Clock,
    /// The next sequence number, by flow.
    sequences: Vec<u32>,
}

impl Stamps {
    /// Stamps a frame of `flow` that is due at `at`, in ticks; `data` begins with it and has room for it.
    #[inline]
    fn write(&mut self, data: &mut [u8], len: u16, flow: u32, at: u64, in_window: bool) {
        let Some(sequence) = self.sequences.get_mut(flow as usize) else { return };
        let stamp = Stamp {
            trial: self.trial,
            in_window,
            stream: self.stream,
            flow,
            sequence: *sequence,
            time_ns: self.clock.at_ns(at),
        };
        if let Some(place) = data.get_mut(stamp_at(usize::from(len))..).and_then(|d| d.first_chunk_mut()) {
            *place = stamp.bytes();
        }
        *sequence = sequence.wrapping_add(1);
    }

    /// All flows begin again.
    fn begin(&mut self, trial: u8) {
        self.trial = trial;
        self.sequences.fill(0);
    }
}

/// The port `generator`.
#[derive(Clone)]
pub struct Generator {
    workload: Workload,
    clock: Clock,
    /// As the chain file says, and now.
    shape: Pace,
    pace: Pace,
    lossless: bool,
    left: u64,
    no_buffer: u64,
    started: bool,
    remarks: Vec<String>,
    /// Nothing is made before this, nor due after `last`: ticks.
    begin: u64,
    last: u64,
    window: Span,
    made: Made,
    stamps: Option<Stamps>,
    /// Mean length of its frames in bytes, with FCS.
    mean_frame_bytes: f64,
}

impl Generator {
    /// As the chain file describes its port `number`; the files that it names are relative to `dir`.
    ///
    /// # Errors
    /// When sizes, flows or addresses cannot be had together, or a file is none.
    pub fn open(dir: &Path, spec: &model::Generator, number: usize, clock: &Clock) -> Result<Self, PortError> {
        let Traffic { spec: workload, schedule, remarks } = traffic::load(spec, dir)?;
        let mean_frame_bytes = workload.mean_frame_bytes();
        let shape = Pace::scheduled(schedule, clock);
        let stamps = match (spec.stamp, u8::try_from(number)) {
            (false, _) => None,
            (true, Err(_)) => return Err(PortError::Stream(number)),
            (true, Ok(stream)) => {
                let mut stamps = Stamps { stream, trial: 0, clock: *clock, sequences: vec![0; spec.flows as usize] };
                // Written to, so that no page is new to the process when it matters.
                stamps.begin(0);
                Some(stamps)
            }
        };
        Ok(Self {
            workload: Workload::new(&workload)?,
            pace: shape.clone(),
            shape,
            lossless: spec.lossless(),
            left: spec.count.unwrap_or(u64::MAX),
            no_buffer: 0,
            started: false,
            remarks,
            clock: *clock,
            begin: 0,
            last: u64::MAX,
            // On its own there is no other window than all the time.
            window: Span::new(0, u64::MAX),
            made: Made::default(),
            stamps,
            mean_frame_bytes,
        })
    }

    /// Frames a second that the chain file asks for; none: as many as it can make.
    pub fn pps(&self) -> Option<f64> {
        self.shape.pps(&self.clock)
    }

    /// Mean length of its frames in bytes, with FCS.
    pub fn mean_frame_bytes(&self) -> f64 {
        self.mean_frame_bytes
    }

    /// Makes nothing until it is driven. A number of frames that the file gives holds no more.
    pub fn halt(&mut self) {
        (self.begin, self.last, self.left, self.started) = (u64::MAX, u64::MAX, u64::MAX, true);
        self.window = Span::default();
    }

    /// One trial, at those times, whose number modulo 128 stands in stamps.
    pub fn drive(&mut self, drive: Drive, times: Times, trial: u8) {
        self.halt();
        self.shape.go_on_from(&self.pace);
        self.pace = match drive {
            Drive::Paced(pps) => self.shape.at(pps, &self.clock),
            Drive::Max | Drive::Lossless => Pace::steady(f64::INFINITY, &self.clock),
        };
        self.pace.start(times.begin);
        self.lossless = drive == Drive::Lossless;
        (self.begin, self.last) = (times.begin, times.until.saturating_sub(1));
        self.window = Span::new(times.from, times.until);
        self.made = Made::default();
        if let Some(stamps) = &mut self.stamps {
            stamps.begin(trial);
        }
    }

    /// Whether everything that was due in the trial is made.
    pub fn caught_up(&self, now: u64) -> bool {
        self.pace.next().unwrap_or(now) > self.last
    }

    /// Ends the trial: what is not made by now is not made any more.
    pub fn finish(&mut self, times: Times) -> Made {
        let missed = self.pace.left_before(times.until) - self.pace.left_before(times.from);
        let made = Made { intended: self.made.made + missed, ..self.made };
        self.halt();
        made
    }

    /// `n` frames that were due at `at` are made.
    #[inline]
    fn count(made: &mut Made, window: Span, at: u64, now: u64, n: u64) {
        if window.has(at) {
            made.made += n;
            made.worst_late = made.worst_late.max(now.saturating_sub(at));
        }
    }
}

/// Writes `frame` into buffer `index`. Returns it as the data path knows it, and the buffer from its first byte on.
#[inline(always)]
fn put<'a>(loan: &mut Loan<'a>, index: u32, at: u64, frame: &workload::Frame<'_>) -> (Frame, Option<&'a mut [u8]>) {
    let desc = Desc { buf: BufId::new(index, 0), off: HEADROOM, len: frame.len, ..Desc::default() };
    let mut data = loan.take(desc).and_then(|buf| buf.get_mut(usize::from(HEADROOM)..));
    if let Some(data) = &mut data {
        match data.first_chunk_mut::<64>() {
            // A whole line at once: the processor need not read what it overwrites.
            Some(line) if frame.len <= 64 => *line = frame.head.0,
            // The region's buffers hold the largest frame of the mix.
            _ => _ = frame.write(data),
        }
    }
    (Frame { index, off: HEADROOM, len: frame.len, hash: Some(frame.flow_hash), at }, data)
}

impl Port for Generator {
    fn receive(&mut self, max: usize, now: u64, buffers: &mut Buffers, frames: &mut Frames) {
        if !self.started {
            self.pace.start(now);
            self.started = true;
        }
        let max = max.min(PORT_BURST).min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if now < self.begin || self.last < now && self.pace.next().is_none() {
            return;
        }
        let n = self.pace.due_by(now.min(self.last), max);
        if n == 0 {
            return;
        }
        let mut indexes = [0; PORT_BURST];
        let indexes = &mut indexes[..n];
        let (pace, made, stamps, window) = (&mut self.pace, &mut self.made, &mut self.stamps, self.window);
        if !buffers.alloc(indexes) {
            if !self.lossless {
                // Due, but there is nothing to put them in: received and lost.
                self.workload.burst(n, |frame| {
                    let at = pace.take(now);
                    // It has a number, and will be missed.
                    if let Some(stamps) = stamps {
                        stamps.write(&mut [], frame.len, frame.flow, at, window.has(at));
                    }
                    made.no_buffer += u64::from(window.has(at));
                    Self::count(made, window, at, now, 1);
                });
                self.no_buffer += n as u64;
                self.left -= n as u64;
            }
            return;
        }
        self.left -= n as u64;
        let mut next = indexes.iter();
        let mut loan = buffers.open();
        // The commonest traffic, all of it due now, is counted once a burst.
        if stamps.is_none() && pace.next().is_none() {
            Self::count(made, window, now, now, n as u64);
            return self.workload.burst(n, |frame| {
                let Some(&index) = next.next() else { return };
                _ = frames.try_push(put(&mut loan, index, now, &frame).0);
            });
        }
        self.workload.burst(n, |frame| {
            let Some(&index) = next.next() else { return };
            let at = pace.take(now);
            Self::count(made, window, at, now, 1);
            let (placed, data) = put(&mut loan, index, at, &frame);
            if let (Some(stamps), Some(data)) = (&mut *stamps, data) {
                stamps.write(data, frame.len, frame.flow, at, window.has(at));
            }
            _ = frames.try_push(placed);
        });
    }

    fn exhausted(&self) -> bool {
        self.left == 0
    }

    fn lossless(&self) -> bool {
        self.lossless
    }

    fn due(&self) -> Option<u64> {
        match self.pace.next() {
            _ if self.begin == u64::MAX => Some(u64::MAX),
            Some(next) if next > self.last => Some(u64::MAX),
            Some(next) => Some(next.max(self.begin)),
            // A trial begins at some time; on its own it sends at any.
            None => (self.begin > 0).then_some(self.begin),
        }
    }

    fn generator(&mut self) -> Option<&mut Generator> {
        Some(self)
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }

    fn loss(&self) -> PortLoss {
        PortLoss { no_buffer: self.no_buffer, ..PortLoss::default() }
    }
}
