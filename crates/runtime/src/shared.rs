//! Tables that replicas of an NF have together: shared memory behind the SDK's trait.

use crate::serve::ServeError;
use crate::setup::TableSetup;
use chainline_nf::{Counted, Declared, NfObject, SharedCounts, SharedKey};
use chainline_shm::Counts;
use std::os::fd::OwnedFd;

struct Shared(Counts);

impl SharedCounts for Shared {
    fn count(&mut self, keys: &[SharedKey], bytes: &[u16]) -> Counted {
        let of = self.0.count(keys, bytes);
        Counted { added: of.added, refused: of.refused, refused_bytes: of.refused_bytes }
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn for_each(&self, each: &mut dyn FnMut(SharedKey, u64, u64)) {
        self.0.for_each(each);
    }
}

/// Opens the tables that came with the page, and gives each to the NF that asked for it.
pub(crate) fn hand_out(
    nfs: &mut [Box<dyn NfObject>],
    declared: &[Declared],
    tables: &[Option<TableSetup>],
    mut fds: Vec<Option<OwnedFd>>,
    replica: usize,
) -> Result<(), ServeError> {
    for (i, (nf, asked)) in nfs.iter_mut().zip(declared).enumerate() {
        match (asked.shares, tables.get(i).copied().flatten()) {
            (None, _) => {}
            (Some(asked), Some(table)) if table.shape.entries == asked.entries => {
                let fd = fds.get_mut(table.fd).and_then(Option::take);
                let fd = fd.ok_or_else(|| ServeError::Setup("the memory of a shared table is missing".into()))?;
                nf.shared(Box::new(Shared(Counts::open(fd, table.shape, table.pages, replica)?)));
            }
            (Some(asked), found) => {
                let found = found.map_or("none".to_owned(), |t| format!("one of {} entries", t.shape.entries));
                let expected = asked.entries;
                return Err(ServeError::Setup(format!("found {found}, expected a shared table of {expected} entries")));
            }
        }
    }
    Ok(())
}
