//! Counts packets (the data path does), reads their stamps if it is to, and lets them go.

use super::check::Check;
use super::{Frame, PORT_BURST, Port};
use crate::buffers::Buffers;
use chainline_shm::{BufId, Desc};

/// The port `sink`.
#[derive(Default)]
pub struct Sink {
    check: Option<Box<Check>>,
}

impl Sink {
    /// A sink that reads stamps.
    pub fn checking(check: Check) -> Self {
        Self { check: Some(Box::new(check)) }
    }
}

impl Port for Sink {
    fn send(&mut self, frames: &[Frame], buffers: &mut Buffers) -> usize {
        let mut indexes = [0; PORT_BURST];
        for chunk in frames.chunks(PORT_BURST) {
            if let Some(check) = &mut self.check {
                let mut loan = buffers.open();
                check.burst(chunk.iter().map(|f| {
                    let desc = Desc { buf: BufId::new(f.index, 0), off: f.off, len: f.len, ..Desc::default() };
                    let data = loan.take(desc);
                    let end = usize::from(f.off) + usize::from(f.len);
                    data.and_then(|b| b.get(usize::from(f.off)..end)).unwrap_or_default()
                }));
            }
            for (i, f) in indexes.iter_mut().zip(chunk) {
                *i = f.index;
            }
            buffers.release(&indexes[..chunk.len()]);
        }
        frames.len()
    }

    fn check(&mut self) -> Option<&mut Check> {
        self.check.as_deref_mut()
    }
}
