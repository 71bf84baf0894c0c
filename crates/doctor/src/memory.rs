//! Pages: huge ones, transparent huge ones, locked ones.

use crate::host::chosen;
use crate::{Check, Host, Live};

const HUGE_PAGES: &str = "/sys/kernel/mm/hugepages";

/// Huge pages of each size, free and in total.
pub(crate) fn huge_pages(host: &Host) -> Check {
    const NAME: &str = "huge_pages";
    let sizes: Vec<(u64, i64, i64)> = host
        .names(HUGE_PAGES)
        .iter()
        .filter_map(|dir| {
            let kib = dir.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let count = |file: &str| host.number(format!("{HUGE_PAGES}/{dir}/{file}"));
            Some((kib, count("free_hugepages")?, count("nr_hugepages")?))
        })
        .collect();
    if sizes.is_empty() {
        return Check::warn(NAME, "this kernel has none")
            .means("packet buffers lie in pages that the kernel puts together on request, or in 4 KiB ones");
    }
    let list = |(kib, free, total): &(u64, i64, i64)| format!("{}: {free} of {total} free", size(*kib));
    let finding = sizes.iter().map(list).collect::<Vec<_>>().join("; ");
    if sizes.iter().any(|(_, free, _)| *free > 0) {
        Check::ok(NAME, finding)
    } else {
        Check::warn(NAME, finding)
            .means("packet buffers lie in pages that the kernel puts together on request, or in 4 KiB ones; everything works")
            .remedy("echo 512 | sudo tee /proc/sys/vm/nr_hugepages")
    }
}

fn size(kib: u64) -> String {
    match kib {
        k if k >= 1 << 20 => format!("{} GiB", k >> 20),
        k if k >= 1 << 10 => format!("{} MiB", k >> 10),
        k => format!("{k} KiB"),
    }
}

/// Whether shared memory may get transparent huge pages.
pub(crate) fn transparent_huge_pages(host: &Host) -> Check {
    const NAME: &str = "transparent_huge_pages";
    let Some(text) = host.text("/sys/kernel/mm/transparent_hugepage/shmem_enabled") else {
        return Check::info(NAME, "this kernel has none for shared memory");
    };
    match chosen(&text) {
        Some(word @ ("always" | "advise" | "within_size" | "force")) => {
            Check::ok(NAME, format!("shared memory: {word}"))
        }
        word => Check::info(NAME, format!("shared memory: {}", word.unwrap_or(&text)))
            .means("before Linux 6.1, and without reserved huge pages, packet buffers lie in 4 KiB pages")
            .remedy("echo advise | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled"),
    }
}

/// The limit of locked memory, against what AF_XDP and DPDK pin.
pub(crate) fn locked(host: &Host, live: &Live) -> Check {
    const NAME: &str = "locked_memory";
    const ENOUGH: u64 = 256 << 20;
    const CAP_IPC_LOCK: u32 = 14;
    match live.locked_bytes {
        None => Check::ok(NAME, "no limit"),
        Some(bytes) if bytes >= ENOUGH => Check::ok(NAME, format!("up to {} MiB", bytes >> 20)),
        Some(bytes) if crate::network::has_capability(host, CAP_IPC_LOCK) => {
            Check::ok(NAME, format!("up to {} KiB, which CAP_IPC_LOCK overrides", bytes >> 10))
        }
        Some(bytes) => Check::warn(NAME, format!("up to {} KiB", bytes >> 10))
            .means("af_xdp ports and PCI devices, which pin their buffers, may be refused")
            .remedy("ulimit -l unlimited  (or memlock in /etc/security/limits.conf, LimitMEMLOCK= in a service)"),
    }
}
