//! A process that says it will have no ports. One test, since EAL starts once in a process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use chainline_dpdk::eal;
use chainline_dpdk::tables::Fib4;

#[test]
fn tables_work_without_drivers_and_ports_are_refused() {
    eal::tables_alone();
    // A table with a memory pool: its driver is there.
    let mut table = Fib4::for_next_hops(1, 1, 0).unwrap();
    table.add(0x0a00_0000, 8, 1).unwrap();

    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("librte_net_"), "drivers were loaded all the same");
    let refused = eal::init(&eal::EalConfig::default());
    assert!(matches!(refused, Err(eal::EalError::NoDrivers)), "{refused:?}");
}
