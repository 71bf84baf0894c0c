//! What killed managers can leave: NF processes without a manager, the folders that DPDK made for it, control groups, and
//! threads of others that it moved off reserved cores.

use crate::{Check, Host};

const NAME: &str = "stale_state";
const PROGRAM: &str = "chainline";

/// NF processes and DPDK folders whose manager is gone.
pub(crate) fn left_behind(host: &Host) -> Check {
    let orphans: Vec<String> = processes(host).filter(|pid| is_orphan(host, *pid)).map(|pid| pid.to_string()).collect();
    let folders: Vec<String> = host
        .runtime_dirs()
        .iter()
        .map(|dir| format!("{dir}/dpdk"))
        .flat_map(|dir| host.names(&dir).into_iter().map(move |name| (dir.clone(), name)))
        .filter(|(_, name)| owner(name).is_some_and(|pid| !host.has(format!("/proc/{pid}"))))
        .map(|(dir, name)| format!("{dir}/{name}"))
        .collect();
    let groups = crate::cgroup::stale(host);
    let moved = moved(host);
    // What matters most is told first; the rest once that is mended.
    if !orphans.is_empty() {
        Check::warn(NAME, format!("NF processes without a manager: {}", orphans.join(", ")))
            .means("they hold cores and memory")
            .remedy(format!("kill {}", orphans.join(" ")))
    } else if !moved.is_empty() {
        Check::warn(NAME, format!("managers that are gone moved threads off reserved cores: {}", moved.join(", ")))
            .means("programs keep off cores that nobody reserves any more")
            .remedy("none needed: the next `chainline run` of the files' owner puts them back")
    } else if !folders.is_empty() {
        Check::info(NAME, format!("folders of managers that are gone: {}", folders.join(", ")))
            .remedy(format!("rm -r {}", folders.join(" ")))
    } else if !groups.is_empty() {
        Check::info(NAME, format!("control groups of managers that are gone: {}", groups.join(", ")))
            .remedy("none needed: the next `chainline run` removes them")
    } else {
        Check::ok(NAME, "none")
    }
}

/// Files that tell which threads a manager moved off reserved cores (`chainline_sched::reserve`), whose manager is gone.
fn moved(host: &Host) -> Vec<String> {
    let own = |dir: &String| format!("{dir}/{PROGRAM}");
    // Where there is no better place, a user's is in /tmp under the user's number.
    let others = host.names("/tmp").into_iter().filter(|n| owner(n).is_some()).map(|n| format!("/tmp/{n}"));
    let files = |dir: String| host.names(&dir).into_iter().map(move |name| (dir.clone(), name));
    let gone = |name: &str| {
        let pid = name.strip_prefix("reserved-").and_then(|pid| pid.parse::<u32>().ok());
        pid.is_some_and(|pid| !host.has(format!("/proc/{pid}")))
    };
    let found = host.runtime_dirs().iter().map(own).chain(others).flat_map(files).filter(|(_, name)| gone(name));
    found.map(|(dir, name)| format!("{dir}/{name}")).collect()
}

/// The process that DPDK's folder `chainline-4711` belongs to.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PROGRAM)?.strip_prefix('-')?.parse().ok()
}

fn processes(host: &Host) -> impl Iterator<Item = u32> {
    host.names("/proc").into_iter().filter_map(|name| name.parse().ok())
}

/// Whether a process hosts an NF for a parent that is no manager.
fn is_orphan(host: &Host, pid: u32) -> bool {
    let arguments = host.text(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut arguments = arguments.split('\0');
    let program = arguments.next().and_then(|path| path.rsplit('/').next());
    if program != Some(PROGRAM) || arguments.next() != Some("nf-host") {
        return false;
    }
    let parent = host.status_of(&pid.to_string(), "PPid");
    parent.and_then(|parent| host.text(format!("/proc/{parent}/comm"))).as_deref() != Some(PROGRAM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_folders() {
        assert_eq!(owner("chainline-4711"), Some(4711));
        assert_eq!(owner("chainline-"), None);
        assert_eq!(owner("chainline"), None);
        assert_eq!(owner("rte"), None);
    }
}
