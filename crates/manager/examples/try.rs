use chainline_manager::*;
use chainline_nf::*;
use std::sync::Arc;
fn build(kind: &str, args: serde_json::Value, env: &mut Env<'_>) -> Result<Box<dyn NfObject>, Error> {
    let r = Registry::new([nf_forward::KIND, nf_synthetic::KIND]);
    (r.get(kind).ok_or_else(|| Error::Args(format!("no kind {kind}")))?.build)(args, env)
}
struct O;
impl Observer for O {
    fn interval(&mut self, i: &Interval) {
        for c in &i.chains { println!("{:>8} rx {:.3} tx {:.3} Mpps shed {:.3} drop {:.3} held {} p99 {:?}", c.name, c.received_pps/1e6, c.transmitted_pps/1e6, c.shed_pps/1e6, c.dropped_pps/1e6, c.held, c.latency_ns.map(|l| (l.p50,l.p99))); }
        for n in &i.nfs { println!("   {:>8} {:.3} Mpps q {:.2} cpu {:.2} cost {:?}", n.name, n.pps/1e6, n.queue, n.cpu_share, n.cost_ns); }
    }
    fn happened(&mut self, h: &Happening) { println!("{h:?}"); }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    if a[1] == "nf-host" {
        use std::os::fd::AsFd;
        let s = std::io::stdin().as_fd().try_clone_to_owned().unwrap();
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).unwrap();
        if let Err(e) = chainline_runtime::serve(s, &build) { eprintln!("{e}"); std::process::exit(1); }
        return;
    }
    let text = std::fs::read_to_string(&a[1]).unwrap();
    let file = match chainline_chain::load(&text, std::path::Path::new(&a[1])) { Ok(f) => f, Err(e) => { eprintln!("{e}"); std::process::exit(2) } };
    let plan = match chainline_chain::plan::Plan::build(&file, &[0, 1]) { Ok(f) => f, Err(e) => { eprintln!("{e}"); std::process::exit(2) } };
    let o = Options { dir: ".".into(), program: std::env::current_exe().unwrap(), builder: Arc::new(build), duration: Some(std::time::Duration::from_secs(a.get(2).map_or(3, |s| s.parse().unwrap()))), interval: std::time::Duration::from_secs(1), drain: std::time::Duration::from_secs(2), stop: || 0 };
    match run(plan, &o, &mut O) { Ok(r) => println!("{}", serde_json::to_string_pretty(&r).unwrap()), Err(e) => { eprintln!("{e}"); std::process::exit(1) } }
}
