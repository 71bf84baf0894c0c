//! What killed managers have left: run directories and control groups named after a process that is gone.

use crate::{Check, Host, cgroup};

/// The name of the directories that managers keep their runs in, below each of the places.
const OURS: &str = "chainline";

/// Run directories and control groups whose manager is gone.
pub(crate) fn left_behind(host: &Host) -> Check {
    const NAME: &str = "stale_state";
    let places = host.runtime_dirs().iter().cloned().chain(cgroup::mount(host));
    let (mut stale, mut live) = (Vec::new(), 0_usize);
    for dir in places.map(|place| format!("{place}/{OURS}")) {
        for name in host.names(&dir) {
            match manager_of(&name) {
                Some(pid) if host.has(format!("/proc/{pid}")) => live += 1,
                Some(_) => stale.push(format!("{dir}/{name}")),
                None => {}
            }
        }
    }
    if stale.is_empty() {
        return Check::ok(NAME, if live == 0 { "none".to_owned() } else { format!("none; {live} in use") });
    }
    Check::info(NAME, stale.join(", ")).means("a manager was killed; the next `chainline run` removes what it left")
}

/// The process that a directory belongs to: `edge-4711` and `4711` belong to 4711.
fn manager_of(name: &str) -> Option<u32> {
    name.rsplit('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runs() {
        assert_eq!(manager_of("edge-4711"), Some(4711));
        assert_eq!(manager_of("two-words-4711"), Some(4711));
        assert_eq!(manager_of("4711"), Some(4711));
        assert_eq!(manager_of("cgroup.procs"), None);
    }
}
