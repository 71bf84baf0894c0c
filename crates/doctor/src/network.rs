//! What ports need: DPDK and its drivers, rights, sockets, namespaces.

use crate::{Check, Host, Live};

const CAPABILITIES: [(u32, &str, &str); 3] = [
    (13, "CAP_NET_RAW", "af_packet and af_xdp ports"),
    (12, "CAP_NET_ADMIN", "tap and af_xdp ports, namespaces"),
    (23, "CAP_SYS_NICE", "real-time policies, raising priorities"),
];

/// Drivers that chain files name, with the port that each serves.
const DRIVERS: [(&str, &str); 6] = [
    ("af_packet", "af_packet"),
    ("af_xdp", "af_xdp"),
    ("memif", "memif"),
    ("null", "vdev:net_null"),
    ("pcap", "pcap"),
    ("tap", "tap"),
];

/// DPDK's version and which virtual drivers are there.
pub(crate) fn dpdk(host: &Host) -> Check {
    const NAME: &str = "dpdk";
    const INSTALL: &str = "sudo apt-get install libdpdk-dev dpdk-dev";
    let Some((dir, abi)) = library_dirs(host).into_iter().find_map(|dir| Some((dir.clone(), eal_abi(host, &dir)?)))
    else {
        return Check::fail(NAME, "librte_eal is in none of the usual directories")
            .means("no port can be opened")
            .remedy(INSTALL);
    };
    // Since 20.11, the ABI's major number is that of the November release and one more (DPDK guide, ABI policy).
    let version = abi.saturating_sub(1);
    let files: Vec<String> = host
        .names(&dir)
        .into_iter()
        .filter(|n| n == "dpdk")
        .flat_map(|_| host.names(format!("{dir}/dpdk")))
        .filter(|n| n.starts_with("pmds-"))
        .flat_map(|pmds| host.names(format!("{dir}/dpdk/{pmds}")))
        .chain(host.names(&dir))
        .collect();
    let there = |driver: &str| files.iter().any(|f| f.starts_with(&format!("librte_net_{driver}.so")));
    let missing: Vec<_> = DRIVERS.iter().filter(|(driver, _)| !there(driver)).map(|(_, port)| *port).collect();
    let finding = format!("{version}.11 in {dir}");
    if version < 22 {
        Check::fail(NAME, finding).means("expected 22.11 or later").remedy(INSTALL)
    } else if missing.is_empty() {
        Check::ok(NAME, finding)
    } else {
        Check::warn(NAME, format!("{finding}; no driver for ports: {}", missing.join(", "))).remedy(INSTALL)
    }
}

fn library_dirs(host: &Host) -> Vec<String> {
    let multiarch = ["/usr/local/lib", "/usr/lib"].into_iter().flat_map(|base| {
        let dirs = host.names(base).into_iter().filter(|n| n.ends_with("-linux-gnu"));
        dirs.map(move |n| format!("{base}/{n}"))
    });
    multiarch.chain(["/usr/local/lib64", "/usr/local/lib", "/usr/lib64", "/usr/lib"].map(str::to_owned)).collect()
}

/// From `librte_eal.so.23` or `librte_eal.so.23.0`: 23.
fn eal_abi(host: &Host, dir: &str) -> Option<u32> {
    host.names(dir).iter().find_map(|n| n.strip_prefix("librte_eal.so.")?.split('.').next()?.parse().ok())
}

pub(crate) fn has_capability(host: &Host, bit: u32) -> bool {
    let effective = host.own_status("CapEff").and_then(|hex| u64::from_str_radix(&hex, 16).ok());
    effective.is_some_and(|set| set >> bit & 1 == 1)
}

/// The rights that ports and policies need.
pub(crate) fn capabilities(host: &Host) -> Check {
    const NAME: &str = "capabilities";
    let missing: Vec<_> = CAPABILITIES.iter().filter(|(bit, ..)| !has_capability(host, *bit)).collect();
    if missing.is_empty() {
        return Check::ok(NAME, CAPABILITIES.map(|(_, name, _)| name).join(", "));
    }
    let list = |field: fn(&(u32, &'static str, &'static str)) -> &'static str| {
        missing.iter().map(|c| field(c)).collect::<Vec<_>>().join(", ")
    };
    let set = list(|c| c.1).to_lowercase().replace(", ", ",");
    Check::warn(NAME, format!("without {}", list(|c| c.1)))
        .means(format!("refused: {}; pcap, generator and sink ports need no rights", list(|c| c.2)))
        .remedy(format!("sudo setcap {set}+ep \"$(command -v chainline)\"  (or run it as root)"))
}

/// AF_XDP sockets.
pub(crate) fn af_xdp(live: &Live) -> Check {
    const NAME: &str = "af_xdp";
    match &live.af_xdp {
        Ok(()) => Check::ok(NAME, "sockets can be made"),
        Err(error) => Check::info(NAME, format!("no sockets: {error}"))
            .means("af_xdp ports are refused; af_packet ports serve the same interfaces, slower")
            .remedy("a kernel with CONFIG_XDP_SOCKETS, and CAP_NET_RAW"),
    }
}

/// Network namespaces, and whether users without rights can make them.
pub(crate) fn namespaces(host: &Host) -> Check {
    const NAME: &str = "namespaces";
    if !host.has("/proc/self/ns/net") {
        return Check::warn(NAME, "this kernel has no network namespaces").means("the live demo cannot run");
    }
    let most = host.number("/proc/sys/user/max_net_namespaces").unwrap_or(i64::MAX);
    let user = host.number("/proc/sys/kernel/unprivileged_userns_clone") != Some(0)
        && host.number("/proc/sys/user/max_user_namespaces") != Some(0);
    if most == 0 {
        return Check::warn(NAME, "network namespaces are limited to 0")
            .means("the live demo cannot run")
            .remedy("sudo sysctl -w user.max_net_namespaces=1024");
    }
    Check::ok(NAME, format!("network: yes; users' own: {}", if user { "yes" } else { "no" }))
}
