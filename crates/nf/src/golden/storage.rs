//! Files of an NF under test: in memory, empty to begin with, and done by the next call.

use crate::{Access, Completion, Ctx, File, FileSpec, Holds, NfObject, Refused, Storage};
use std::sync::atomic::AtomicU64;

enum Asked {
    Write(File, Option<u64>, u64),
    Read(File, u64, u64, u32),
}

pub(super) struct Memory {
    files: Vec<(FileSpec, Vec<u8>)>,
    asked: Vec<Asked>,
}

impl Memory {
    pub fn new(specs: &[FileSpec]) -> Self {
        Self { files: specs.iter().map(|s| (s.clone(), s.head.clone())).collect(), asked: Vec::new() }
    }

    /// Tells the NF of all that it asked for in earlier calls.
    pub fn complete(&mut self, nf: &mut dyn NfObject, now_ns: u64, counters: &[AtomicU64], holds: &mut dyn Holds) {
        for asked in std::mem::take(&mut self.asked) {
            let (file, context, data, n) = match asked {
                Asked::Write(file, context, len) => (file, context, Vec::new(), len),
                Asked::Read(file, context, offset, len) => {
                    let all = &self.files[file.0 as usize].1;
                    let from = usize::try_from(offset).map_or(all.len(), |o| o.min(all.len()));
                    let data = all[from..all.len().min(from.saturating_add(len as usize))].to_vec();
                    let n = data.len() as u64;
                    (file, Some(context), data, n)
                }
            };
            let done = Completion { file, context, count: 1, result: Ok(n), data: &data };
            nf.completed(&done, &mut Ctx::new(now_ns, counters, holds).with_storage(Some(self)));
        }
    }

    fn file(&mut self, file: File, appends: bool) -> Result<&mut (FileSpec, Vec<u8>), Refused> {
        let found = self.files.get_mut(file.0 as usize).ok_or(Refused::Absent)?;
        if matches!(found.0.access, Access::Append { .. }) == appends { Ok(found) } else { Err(Refused::Absent) }
    }
}

impl Storage for Memory {
    fn write(&mut self, file: File, parts: &[&[u8]], context: Option<u64>) -> Result<(), Refused> {
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let (spec, bytes) = self.file(file, true)?;
        if len > spec.batch_bytes as usize {
            return Err(Refused::TooLong);
        }
        parts.iter().for_each(|p| bytes.extend_from_slice(p));
        self.asked.push(Asked::Write(file, context, len as u64));
        Ok(())
    }

    fn read(&mut self, file: File, offset: u64, len: u32, context: u64) -> Result<(), Refused> {
        let spec = &self.file(file, false)?.0;
        if len > spec.read_bytes {
            return Err(Refused::TooLong);
        }
        let most = spec.reads as usize;
        if self.asked.iter().filter(|a| matches!(a, Asked::Read(f, ..) if *f == file)).count() == most {
            return Err(Refused::Full);
        }
        self.asked.push(Asked::Read(file, context, offset, len));
        Ok(())
    }

    fn flush(&mut self, file: File) -> Result<(), Refused> {
        self.file(file, true).map(|_| ())
    }
}
