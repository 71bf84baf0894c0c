//! The tables that replicas of NFs have together: made when the first replica asks, kept while any of them may come back.

use chainline_chain::model;
use chainline_chain::plan::Plan;
use chainline_nf::{Sharing, TableSpec};
use chainline_shm::Counts;
use chainline_shm::counts::Shape;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Whose part of which table an instance's NF has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// The first of the NF's replicas: the table's name.
    first: usize,
    replica: usize,
    locked: bool,
}

/// By the NFs of an instance.
pub(super) fn shares(plan: &Plan, instance: usize) -> Vec<Option<Share>> {
    let of = |nf: &usize| {
        let (id, nf) = (*nf, &plan.nfs[*nf]);
        let locked = nf.state == model::Sharing::SharedLocked;
        (!nf.state.is_private()).then(|| Share { first: nf.first, replica: id - nf.first, locked })
    };
    plan.instances[instance].nfs.iter().map(of).collect()
}

/// As the SDK says it.
pub fn sharing(state: model::Sharing) -> Sharing {
    match state {
        model::Sharing::Private => Sharing::Private,
        model::Sharing::SharedLocked => Sharing::Locked,
        model::Sharing::SharedLockfree => Sharing::LockFree,
    }
}

/// All tables.
#[derive(Default)]
pub(super) struct Tables(BTreeMap<usize, Counts>);

impl Tables {
    /// The table of an NF, which asks for one like this; else what is wrong with that.
    pub fn of(&mut self, share: Share, asked: TableSpec) -> Result<&Counts, String> {
        let table = match self.0.entry(share.first) {
            Entry::Occupied(table) => table.into_mut(),
            Entry::Vacant(place) => {
                let table = Counts::create(Shape::new(asked.entries, share.locked)).map_err(|e| e.to_string())?;
                place.insert(table)
            }
        };
        let expected = table.shape().entries;
        if asked.entries == expected {
            Ok(table)
        } else {
            Err(format!("asked for a shared table of {} entries, expected {expected} as the others", asked.entries))
        }
    }

    /// A replica is dead: what it held of its tables nobody holds now.
    pub fn release(&self, shares: &[Option<Share>]) {
        for share in shares.iter().flatten() {
            if let Some(table) = self.0.get(&share.first) {
                table.release_for(share.replica);
            }
        }
    }

    /// Lets go of the tables of NFs that are gone.
    pub fn thin(&mut self, plan: &Plan) {
        self.0.retain(|first, _| plan.has_nf(*first));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_replica_holds_up_nobody() {
        let mut tables = Tables::default();
        let share = |replica| Share { first: 3, replica, locked: true };
        let spec = TableSpec { entries: 100 };
        let open = |table: &Counts, replica| {
            Counts::open(table.mapping().dup_fd().unwrap(), table.shape(), table.mapping().pages(), replica).unwrap()
        };
        let (dead, mut living) = {
            let table = tables.of(share(0), spec).unwrap();
            (open(table, 0), open(table, 1))
        };
        dead.hold_for_ever();
        tables.release(&[None, Some(share(1)), Some(Share { first: 4, ..share(0) })]);
        assert_eq!(living.count(&[[1; 16]], &[60]).refused, 1, "another's death does not free it");
        tables.release(&[None, Some(share(0))]);
        assert_eq!(living.count(&[[1; 16]], &[60]).added, 1);
        assert_eq!(tables.of(share(1), spec).unwrap().len(), 1, "all have one");
        assert!(tables.of(share(1), TableSpec { entries: 99 }).is_err());
    }
}
