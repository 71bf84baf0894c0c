//! The environment manifest: where a run took place, so that two results can be told apart and one be repeated.

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

/// Where the run took place: the report's own words, and what only this program knows.
pub fn environment(report: &Value) -> Value {
    let mut environment = report.clone();
    if let (Some(all), Value::Object(own)) = (environment.as_object_mut(), host()) {
        all.extend(own);
        all.extend(commit(Path::new(".")));
    }
    environment
}

/// The host, and the build that `program` is. What the host does not tell is `null`.
pub fn manifest(program: &Path) -> Value {
    let mut all = Map::new();
    all.insert("chainline".into(), env!("CARGO_PKG_VERSION").into());
    all.insert("program_sha256".into(), file_hash(program).into());
    // The commit is that of the work tree that the program was built in; an installed program has none.
    all.extend(commit(program.parent().unwrap_or(Path::new("/"))));
    if let Value::Object(host) = host() {
        all.extend(host);
    }
    Value::Object(all)
}

/// What makes results of two moments comparable: the processor, the kernel, how much of both there is. Part of the
/// key under which results are kept.
pub fn identity() -> Value {
    let all = host();
    let fields = ["cpu", "microcode", "kernel", "cmdline", "online_cores", "numa_nodes", "memory_kib", "hypervisor"];
    let more = ["mitigations", "smt", "huge_pages", "transparent_huge_pages", "governor"];
    fields.iter().chain(&more).map(|f| ((*f).to_owned(), all[*f].clone())).collect::<Map<_, _>>().into()
}

/// SHA-256 of a file in hexadecimal; `None` if it cannot be read.
fn file_hash(path: &Path) -> Option<String> {
    let mut file = fs::File::open(path).ok()?;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece).ok()? {
            0 => return Some(hex(&hash.finalize())),
            n => hash.update(&piece[..n]),
        }
    }
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn line(path: &str) -> Option<String> {
    fs::read_to_string(path).map(|s| s.trim().to_owned()).ok()
}

fn number(path: &str) -> Option<u64> {
    line(path)?.parse().ok()
}

/// The value of a line `name : value` in a file of /proc.
fn field(text: &str, name: &str) -> Option<String> {
    let mut pairs = text.lines().filter_map(|l| l.split_once(':'));
    pairs.find(|(n, _)| n.trim() == name).map(|(_, value)| value.trim().to_owned())
}

fn host() -> Value {
    const CPU: &str = "/sys/devices/system/cpu";
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |name| field(&memory, name).and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok());
    let flag = |name: &str| field(&cpuinfo, "flags").map(|f| f.split_whitespace().any(|w| w == name));
    json!({
        "cpu": field(&cpuinfo, "model name"),
        "microcode": field(&cpuinfo, "microcode"),
        "caches": caches(),
        "online_cores": line(&format!("{CPU}/online")),
        "numa_nodes": line("/sys/devices/system/node/online"),
        "smt": line(&format!("{CPU}/smt/active")).map(|s| s == "1"),
        "governor": line(&format!("{CPU}/cpu0/cpufreq/scaling_governor")),
        "frequency_driver": line(&format!("{CPU}/cpu0/cpufreq/scaling_driver")),
        "max_frequency_khz": number(&format!("{CPU}/cpu0/cpufreq/scaling_max_freq")),
        "turbo_off": number(&format!("{CPU}/intel_pstate/no_turbo")).map(|n| n == 1),
        "hypervisor": hypervisor(flag("hypervisor")),
        "memory_kib": kib("MemTotal"),
        "swap_kib": kib("SwapTotal"),
        "huge_pages": number("/proc/sys/vm/nr_hugepages"),
        "huge_page_kib": kib("Hugepagesize"),
        "transparent_huge_pages": line("/sys/kernel/mm/transparent_hugepage/enabled"),
        "kernel": line("/proc/sys/kernel/osrelease"),
        "kernel_build": line("/proc/sys/kernel/version"),
        "cmdline": line("/proc/cmdline"),
        "isolated_cores": line(&format!("{CPU}/isolated")),
        "nohz_full": line(&format!("{CPU}/nohz_full")),
        "cgroup": cgroup(),
        "autogroup": line("/proc/sys/kernel/sched_autogroup_enabled").map(|s| s == "1"),
        "clock_source": line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "distribution": distribution(),
        "mitigations": mitigations(),
    })
}

/// Of each cache that the first core has: level, kind, size, and the cores that share it.
fn caches() -> Value {
    let entry = |i: u32| {
        let dir = format!("/sys/devices/system/cpu/cpu0/cache/index{i}");
        let word = |name| line(&format!("{dir}/{name}"));
        let (level, kind) = (word("level")?, word("type")?);
        let kind = match kind.as_str() {
            "Data" => "d",
            "Instruction" => "i",
            _ => "",
        };
        Some((format!("L{level}{kind}"), json!({"size": word("size"), "shared_by_cores": word("shared_cpu_list")})))
    };
    Value::Object((0..16).map_while(entry).collect())
}

fn hypervisor(virtual_machine: Option<bool>) -> Value {
    if virtual_machine == Some(false) {
        return "none".into();
    }
    let vendor = line("/sys/class/dmi/id/sys_vendor").filter(|v| !v.is_empty());
    let product = line("/sys/class/dmi/id/product_name").filter(|v| !v.is_empty());
    match (virtual_machine, line("/sys/hypervisor/type"), vendor, product) {
        (_, Some(kind), ..) => kind.into(),
        (Some(true), None, Some(vendor), product) => {
            format!("yes ({})", [Some(vendor), product].into_iter().flatten().collect::<Vec<_>>().join(" ")).into()
        }
        (Some(true), ..) => "yes (it does not say which)".into(),
        _ => Value::Null,
    }
}

/// Which version of cgroups has the `cpu` controller.
fn cgroup() -> Value {
    if line("/sys/fs/cgroup/cgroup.controllers").is_some_and(|c| c.split_whitespace().any(|w| w == "cpu")) {
        return "v2".into();
    }
    let controllers = fs::read_to_string("/proc/cgroups").unwrap_or_default();
    let v1 = controllers.lines().any(|l| {
        let mut words = l.split_whitespace();
        // Hierarchy 0 is that of v2, or none.
        words.next() == Some("cpu") && words.next().is_some_and(|hierarchy| hierarchy != "0")
    });
    if v1 { "v1".into() } else { Value::Null }
}

fn distribution() -> Option<String> {
    let text = fs::read_to_string("/etc/os-release").ok()?;
    let name = text.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="))?;
    Some(name.trim_matches('"').to_owned())
}

/// The commit of the work tree around `dir`, and whether files differ from it.
fn commit(dir: &Path) -> Map<String, Value> {
    let git = |args: &[&str]| {
        let out = Command::new("git").arg("-C").arg(dir).args(args).output().ok().filter(|o| o.status.success())?;
        String::from_utf8(out.stdout).ok().map(|s| s.trim().to_owned())
    };
    let modified = git(&["status", "--porcelain", "--untracked-files=no"]).map(|s| !s.is_empty());
    Map::from_iter([
        ("commit".to_owned(), git(&["rev-parse", "HEAD"]).into()),
        ("modified".to_owned(), modified.into()),
    ])
}

/// The kernel's word on each weakness of the processor that concerns it.
fn mitigations() -> Value {
    let files = fs::read_dir("/sys/devices/system/cpu/vulnerabilities").into_iter().flatten().flatten();
    let words = files.filter_map(|f| {
        let words = fs::read_to_string(f.path()).ok()?;
        (words.trim() != "Not affected")
            .then(|| (f.file_name().to_string_lossy().into_owned(), Value::from(words.trim())))
    });
    let mut words: Vec<_> = words.collect();
    words.sort_by(|a, b| a.0.cmp(&b.0));
    Value::Object(words.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_files() {
        let text = "processor\t: 0\nmodel name\t: A: B\nflags\t\t: fpu vme\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A: B"));
        assert_eq!(field(text, "microcode"), None);
    }

    #[test]
    fn a_manifest_names_the_program_and_the_kernel() {
        let program = std::env::current_exe().unwrap();
        let all = manifest(&program);
        assert_eq!(all["program_sha256"].as_str().map(str::len), Some(64));
        assert_eq!(all["kernel"].as_str(), line("/proc/sys/kernel/osrelease").as_deref());
        assert_eq!(manifest(Path::new("/nowhere/at-all"))["program_sha256"], Value::Null);
    }

    #[test]
    fn identity_is_the_same_a_moment_later() {
        assert_eq!(identity(), identity());
        assert!(identity()["kernel"].is_string());
    }
}
