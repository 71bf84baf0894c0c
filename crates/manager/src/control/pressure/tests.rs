use super::*;
use crate::fabric::Fabric;
use chainline_chain::plan::End;
use chainline_chain::{Host, load_for};
use chainline_shm::{Clock, Consumer, Desc, PageLayout, Producer};
use std::path::Path;
use std::time::Duration;

const MS: u64 = 1_000_000;

/// Two chains share the first NF; the second NF of `a` is the one that will be overloaded. `c` is elsewhere, and what it
/// diverts goes to `b`.
const SPEC: &str = "
  defaults: {queue: 64, cores: [1], backpressure: {ecn: true}}
  ports: {in: {generator: {}}, in2: {generator: {}}, out: {sink: {}}}
  nfs:
    shared: {kind: forward}
    slow: {kind: forward}
    last: {kind: forward}
    other: {kind: forward, cores: [2], divert: [b]}
  chains:
    - {name: a, match: {dst_port: 1}, path: [in, shared, slow, last, out]}
    - {name: b, path: [in, shared, last, out]}
    - {name: c, path: [in2, other, out]}
";

fn plan(spec: &str) -> Arc<Plan> {
    let text = format!("apiVersion: chainline/v1alpha1\nkind: ServiceChain\nmetadata: {{name: t}}\nspec:{spec}");
    let host = Host { cores: Some(&[0, 1, 2]), kinds: Some(&["forward"]) };
    Arc::new(Plan::build(&load_for(&text, Path::new("t.yaml"), &host).unwrap(), &[0, 1, 2]).unwrap())
}

struct Scene {
    plan: Arc<Plan>,
    from: Sources,
    pages: Vec<Option<Arc<Page>>>,
    readings: Readings,
    pressure: Pressure,
    now_ns: u64,
}

impl Scene {
    fn new(spec: &str) -> Self {
        let plan = plan(spec);
        let fabric = Arc::new(Fabric::create(&plan, 128, Clock::measure(Duration::ZERO)).unwrap());
        let gauges: Arc<[ChainGauge]> = plan.chains.iter().map(|_| ChainGauge::default()).collect();
        let page = |i: &chainline_chain::plan::InstancePlan| {
            let layout = PageLayout { queues: i.queues.len(), counters: vec![0; i.nfs.len()], holds: 0 };
            Some(Arc::new(Page::create(layout).unwrap()))
        };
        Self {
            from: Sources::new(plan.clone(), fabric, gauges),
            pages: plan.instances.iter().map(page).collect(),
            readings: Readings::new(&plan),
            pressure: Pressure::new(&plan).unwrap(),
            now_ns: 0,
            plan,
        }
    }

    /// A millisecond later.
    fn step(&mut self) {
        self.now_ns += MS;
        self.readings.read(&self.from, &self.pages, self.now_ns);
        self.pressure.step(&self.readings, &self.from, &self.pages, |_| None);
    }

    fn edge(&self, chain: usize, hop: u8) -> usize {
        self.plan.edges.iter().position(|e| e.chain == chain && e.hop == hop).unwrap()
    }

    /// Which chains admit nothing.
    fn throttled(&self) -> Vec<bool> {
        self.from.gauges.iter().map(|g| g.advice.limit() == 0).collect()
    }

    /// Whether the instance yields the queue with the packets of the chain.
    fn yields(&self, instance: usize, chain: usize) -> bool {
        let q = self.plan.instances[instance].queues.iter().position(|q| q.chain == chain).unwrap();
        self.pages[instance].as_ref().unwrap().queue_control(q).yields.load(Relaxed) != 0
    }
}

#[test]
fn one_chain_is_throttled_and_its_neighbour_goes_on() {
    let mut s = Scene::new(SPEC);
    s.step();
    s.step();
    assert_eq!(s.throttled(), [false; 3]);
    let ring = s.from.fabric.rings[s.edge(0, 1)].clone();
    let (mut p, mut c) = (Producer::attach(ring.clone()), Consumer::attach(ring));
    (0..52).for_each(|_| p.push(Desc::default()));
    p.publish();
    s.step();
    assert_eq!(s.throttled(), [true, false, false], "80 % full, and nothing leaves");
    // `shared` leaves `a` and goes on with `b`; `slow`, whose queue it is, works.
    assert_eq!([(0, 0), (0, 1), (1, 0), (2, 0)].map(|(i, c)| s.yields(i, c)), [true, false, false, false]);
    // An instance that is started again is told the same.
    let queues = s.plan.instances[0].queues.len();
    let page = Arc::new(Page::create(PageLayout { queues, counters: vec![0], holds: 0 }).unwrap());
    s.pressure.restarted(0, &page);
    s.pages[0] = Some(page);
    assert!(s.yields(0, 0) && !s.yields(0, 1));
    assert_eq!(c.available(52), 52);
    c.release(10);
    s.step();
    assert_eq!(s.throttled(), [true, false, false], "not yet down to the low mark");
    c.release(4);
    s.step();
    assert_eq!(s.throttled(), [false; 3]);
    assert!(!s.yields(0, 0));
    let report = s.pressure.report(s.now_ns);
    assert_eq!(report.iter().map(|r| r.throttles).collect::<Vec<_>>(), [1, 0, 0]);
    assert!((report[0].throttled_s - 0.002).abs() < 1e-9, "{report:?}");
}

/// Diverted packets are on the account of the chain that they came from, so that is the one that sheds.
#[test]
fn a_chain_sheds_for_the_queue_that_it_diverts_to() {
    let mut s = Scene::new(SPEC);
    let other = 3;
    let edges = s.plan.edges.iter().enumerate();
    let diverted =
        edges.filter(|(_, e)| e.from == End::Instance(other) && e.chain == 1).map(|(e, _)| e).next().unwrap();
    let mut p = Producer::attach(s.from.fabric.rings[diverted].clone());
    (0..64).for_each(|_| p.push(Desc::default()));
    p.publish();
    s.step();
    s.step();
    assert_eq!(s.throttled(), [false, false, true]);
    assert!(s.yields(other, 2));
    s.pressure.undo(&s.from, &s.pages);
    assert_eq!(s.throttled(), [false; 3]);
    assert!(!s.yields(other, 2));
}

#[test]
fn limits_follow_the_rate_and_leave_held_packets_out() {
    let mut s = Scene::new(SPEC);
    let mut left = 0;
    // 100 a millisecond leave `a`, whose queues hold 256: in 500 us that is 50, and a burst for each hop.
    for _ in 0..300 {
        left += 100;
        s.from.gauges[0].show(left + 200, 0, 200, s.now_ns + MS);
        s.step();
    }
    let limit = s.from.gauges[0].advice.limit();
    assert!((160..256).contains(&limit), "{limit}");
    assert_eq!(s.pressure.report(s.now_ns)[0].limit, Some(limit));
    assert_eq!(s.from.gauges[1].advice.limit(), u64::MAX, "`b` has nothing to do");
    s.pages[1].as_ref().unwrap().status().held.store(1000, Relaxed);
    s.from.gauges[0].show(left + 1300, 0, 1200, s.now_ns + MS);
    s.step();
    let with_held = s.from.gauges[0].advice.limit();
    assert!((1160..1256).contains(&with_held), "{with_held}");
}

#[test]
fn long_queues_are_marked_when_they_stay_long() {
    let mut s = Scene::new(SPEC);
    s.step();
    let ring = s.from.fabric.rings[s.edge(0, 1)].clone();
    let mut p = Producer::attach(ring.clone());
    (0..50).for_each(|_| p.push(Desc::default()));
    p.publish();
    s.step();
    assert!(!s.from.gauges[0].advice.marks(), "a burst is no congestion");
    (0..40).for_each(|_| s.step());
    assert_eq!([0, 1, 2].map(|c: usize| s.from.gauges[c].advice.marks()), [true, false, false]);
    let mut c = Consumer::attach(ring);
    c.available(50);
    c.release(50);
    (0..40).for_each(|_| s.step());
    assert!(!s.from.gauges[0].advice.marks());
}

#[test]
fn chains_that_meet_on_cores_are_tried_together() {
    let plan = plan(SPEC);
    assert_eq!(groups(&plan), [0, 0, 1]);
    assert!(Pressure::new(&Plan { mechanisms: "weights".parse().unwrap(), ..(*plan).clone() }).is_none());
}

/// As many as fit into bursts are lost, and the limit may be no more than those.
#[test]
fn lost_packets_lock_nobody_out() {
    let mut missing = Missing::default();
    let mut step = |ms: u64, left: u64, inside: u64, queued: u64| {
        missing.step(ms * MS, Progress { at_ns: ms * MS, left, inside }, queued, 128)
    };
    // Still on their way, for all that is known.
    (0..20).for_each(|ms| assert_eq!(step(ms, 10, 100, 0), 0, "{ms}"));
    assert_eq!(step(21, 10, 100, 0), 100, "nothing moves, and no queue has any");
    // Others come and go: these stay lost, until an audit finds them.
    assert_eq!(step(22, 10, 160, 60), 100);
    assert_eq!(step(23, 50, 130, 10), 100);
    assert_eq!(step(24, 210, 0, 0), 0);
    assert_eq!(step(25, 210, 90, 30), 0);
    // In a chain that moves, only what is more than queues and bursts account for.
    (26..50).for_each(|ms| _ = step(ms, 210 + ms, 400, 72));
    assert_eq!(step(50, 300, 400, 72), 200);
}
