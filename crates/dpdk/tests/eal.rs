//! EAL starts without a trace. One test, since EAL starts once in a process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use chainline_dpdk::eal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[test]
fn start_leaves_no_trace() {
    let listing = || -> BTreeSet<_> {
        let home = std::env::var_os("XDG_RUNTIME_DIR").unwrap_or_else(|| "/tmp".into());
        let dirs = ["/var/run/dpdk".into(), Path::new(&home).join("dpdk")];
        let ours = |path: &PathBuf| path.to_string_lossy().ends_with(&format!("chainline-{}", std::process::id()));
        let inside = dirs.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten();
        let inside = inside.filter_map(|entry| Some(entry.ok()?.path())).filter(ours);
        inside.chain(dirs.iter().filter(|dir| dir.exists()).cloned()).collect()
    };
    let before = listing();
    let (cpus, handler) = (affinity(), alarm_handler());

    let init = || eal::init(&eal::EalConfig::default());
    std::thread::scope(|scope| {
        // Whoever comes first starts it, once.
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(init)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
    });
    init().unwrap();
    eal::private().unwrap();

    assert_eq!(affinity(), cpus);
    assert_eq!(alarm_handler(), handler);
    assert_eq!(listing(), before);
    let later = eal::init(&eal::EalConfig { pci: vec!["0000:3b:00.0".into()], ..Default::default() });
    assert!(matches!(&later, Err(eal::EalError::NoPci(pci)) if pci == "0000:3b:00.0"), "{later:?}");
    assert!(chainline_dpdk::release().starts_with("DPDK "), "{}", chainline_dpdk::release());
}

fn affinity() -> Vec<usize> {
    // SAFETY: a cpu_set_t is plain bits, filled by the call; indexes are below CPU_SETSIZE.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
    }
}

fn alarm_handler() -> libc::sighandler_t {
    // SAFETY: only reads the handler.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        assert_eq!(libc::sigaction(libc::SIGALRM, std::ptr::null(), &mut action), 0);
        action.sa_sigaction
    }
}
