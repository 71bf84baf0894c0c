use super::*;
use crate::setup::{Activation, StageSetup};
use chainline_nf::{HoldId, Reason};
use chainline_shm::page::PageLayout;
use chainline_shm::region::Slots;
use chainline_shm::{BufId, Consumer, HEADROOM, Producer, Region, Ring};
use std::time::Duration;

/// What a test NF does with each packet.
type Decide = Box<dyn FnMut(usize, &mut Packet<'_>, &mut Ctx<'_>) -> Verdict + Send>;

struct TestNf(Decide, Option<HoldId>);

impl NfObject for TestNf {
    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        for (i, (packet, verdict)) in burst.iter_mut().enumerate() {
            *verdict = (self.0)(i, packet, ctx);
        }
    }
    fn tick(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(id) = self.1.take() {
            ctx.release(id, Verdict::NEXT);
        }
    }
    fn report(&self) -> Option<String> {
        None
    }
}

fn nf(decide: impl FnMut(usize, &mut Packet<'_>, &mut Ctx<'_>) -> Verdict + Send + 'static) -> Box<dyn NfObject> {
    Box::new(TestNf(Box::new(decide), None))
}

/// A host with `queues` input queues, an output queue for each, a return queue, and the far ends of all.
struct Bench {
    host: Host,
    sources: Vec<Producer>,
    sinks: Vec<Consumer>,
    back: Consumer,
}

const RETURN: usize = 0;

fn bench(nfs: Vec<Box<dyn NfObject>>, weights: &[u32], capacity: u32, batch: u32) -> Bench {
    let region = Region::create(4096, 256).unwrap();
    let ring = || Ring::create(capacity).unwrap();
    let layout = PageLayout { queues: weights.len(), counters: vec![1; nfs.len()], holds: 16 };
    let page = Arc::new(Page::create(layout).unwrap());
    let bell = Bell::create().unwrap();
    let outlet = |ring: &Ring| Outlet {
        producer: Producer::attach(ring.clone()),
        bell: Bell::create().unwrap(),
        wake_at: 32,
        urgent: false,
        same_core: false,
        chain: 0,
        hop: 1,
    };
    let back = Ring::create(4096).unwrap();
    let (mut outlets, mut inlets, mut sources, mut sinks) = (vec![outlet(&back)], vec![], vec![], vec![]);
    for (q, weight) in weights.iter().enumerate() {
        let (input, output) = (ring(), ring());
        outlets.push(outlet(&output));
        inlets.push(Inlet {
            consumer: Consumer::attach(input.clone()),
            producer_bell: None,
            chain: q as u16,
            hop: 0,
            quantum: weight * batch,
            deficit: 0,
            stages: (0..nfs.len()).map(|nf| StageSetup { nf, divert: Vec::new() }).collect(),
            next: q + 1,
            outs: vec![RETURN, q + 1],
            needs: vec![RETURN, q + 1],
            with_files: Vec::new(),
            may_hold: false,
            blocked: false,
        });
        sources.push(Producer::attach(input));
        sinks.push(Consumer::attach(output));
    }
    let host = Host {
        nfs,
        inlets,
        outlets,
        splits: Vec::new(),
        return_out: RETURN,
        credit: true,
        slots: Slots::new(region),
        holds: HoldTable::new(16, page.clone()),
        storage: Storage::open(&[], chainline_storage::Choice::Auto, Arc::new(|| {})).unwrap(),
        page,
        own_bell: bell,
        clock: Clock::measure(Duration::ZERO),
        batch,
        waits: Waits::new(Activation::Wake, &Clock::measure(Duration::ZERO)),
        drained: false,
        gives_way: false,
        now: 0,
        sampling: Sampling::default(),
        tick_at: u64::MAX,
        news: Vec::new(),
        descs: Box::new([Desc::default(); MAX_BURST]),
    };
    Bench { host, sources, sinks, back: Consumer::attach(back) }
}

fn desc(index: u32) -> Desc {
    Desc { buf: BufId::new(index, 1), off: HEADROOM, len: 60, ..Desc::default() }
}

fn fill(source: &mut Producer, indexes: std::ops::Range<u32>) {
    assert!(source.room(indexes.len() as u32) >= indexes.len() as u32);
    indexes.for_each(|i| source.push(desc(i)));
    source.publish();
}

fn drain(sink: &mut Consumer) -> Vec<u32> {
    let n = sink.available(u32::MAX);
    let got = (0..n).map(|i| sink.peek(i).buf.index()).collect();
    sink.release(n);
    got
}

#[test]
fn order_is_kept_and_nothing_is_allocated() {
    let mut b = bench(vec![nf(|_, _, _| Verdict::NEXT), nf(|_, _, _| Verdict::NEXT)], &[1], 1024, 32);
    let mut expected = 0;
    for round in 0..20 {
        fill(&mut b.sources[0], round * 100..round * 100 + 100);
        let host = &mut b.host;
        let spent = allocation_counter::measure(|| while host.pass(0) {});
        assert_eq!(spent.count_total, 0);
        for got in drain(&mut b.sinks[0]) {
            assert_eq!(got, expected);
            expected += 1;
        }
    }
    assert_eq!(expected, 2000);
    assert_eq!(b.host.page.status().busy.load(Relaxed), 0);
    assert_eq!(b.host.page.nf(1).received.load(Relaxed), 2000);
}

#[test]
fn no_more_is_taken_than_fits() {
    let mut b = bench(vec![nf(|_, _, _| Verdict::NEXT)], &[1], 64, 32);
    fill(&mut b.sources[0], 0..64);
    while b.host.pass(0) {}
    fill(&mut b.sources[0], 64..128);
    while b.host.pass(0) {}
    assert_eq!((b.sinks[0].available(u32::MAX), b.host.inlets[0].consumer.available(u32::MAX)), (64, 64));
    // Half of the queue must be free before it goes on: it then runs for long.
    b.sinks[0].release(31);
    assert!(!b.host.pass(0) && !b.host.may_go_on(false));
    b.sinks[0].release(1);
    assert!(b.host.may_go_on(false) && b.host.pass(0));
}

#[test]
fn a_full_queue_does_not_block_the_other_chain() {
    let mut b = bench(vec![nf(|_, _, _| Verdict::NEXT)], &[1, 1], 64, 32);
    for lap in 0..10 {
        let room = b.sources[0].room(64).min(64);
        fill(&mut b.sources[0], 0..room);
        fill(&mut b.sources[1], 1000..1064);
        while b.host.pass(0) {}
        assert_eq!(drain(&mut b.sinks[1]).len(), 64, "lap {lap}");
    }
    assert_eq!(b.sinks[0].available(u32::MAX), 64);
}

#[test]
fn queues_are_served_by_weight() {
    let mut b = bench(vec![nf(|_, _, _| Verdict::NEXT)], &[3, 1], 4096, 16);
    fill(&mut b.sources[0], 0..2000);
    fill(&mut b.sources[1], 2000..4000);
    (0..20).for_each(|i| assert!(b.host.pass(i % 2)));
    let (a, c) = (drain(&mut b.sinks[0]).len(), drain(&mut b.sinks[1]).len());
    assert_eq!((a, c), (20 * 48, 20 * 16));
}

#[test]
fn verdicts_take_packets_apart() {
    let drops = |i: usize, _: &mut Packet<'_>, _: &mut Ctx<'_>| match i % 4 {
        1 => Verdict::from_bits(1 << 24 | 7),
        2 => Verdict::from_bits(9 << 24),
        _ => Verdict::NEXT,
    };
    let seen = |_: usize, p: &mut Packet<'_>, _: &mut Ctx<'_>| {
        assert!(p.set_len(64));
        Verdict::NEXT
    };
    let mut b = bench(vec![nf(drops), nf(seen)], &[1], 256, 32);
    fill(&mut b.sources[0], 0..32);
    while b.host.pass(0) {}
    let n = b.sinks[0].available(64);
    let passed: Vec<_> = (0..n).map(|i| b.sinks[0].peek(i)).collect();
    assert!(passed.iter().all(|d| d.len == 64 && d.buf.index() % 4 % 3 == 0));
    assert_eq!(passed.len(), 16);
    let n = b.back.available(64);
    let tags: Vec<_> = (0..n).map(|i| (b.back.peek(i).buf.index() % 4, b.back.peek(i).tag)).collect();
    assert_eq!(tags.iter().filter(|t| **t == (1, 7)).count(), 8);
    assert_eq!(tags.iter().filter(|t| **t == (2, TAG_BAD_VERDICT)).count(), 8);
}

#[test]
fn wrong_descriptors_are_refused_and_the_rest_goes_on() {
    let mut b = bench(vec![nf(|_, _, _| Verdict::NEXT)], &[1], 64, 32);
    let wrong = [
        Desc { buf: BufId::new(4096, 0), ..desc(0) },
        Desc { off: u16::MAX, len: u16::MAX, ..desc(0) },
        Desc { off: 300, len: 200, ..desc(0) },
        desc(3), // the second of two
    ];
    b.sources[0].push(desc(3));
    wrong.iter().for_each(|d| b.sources[0].push(*d));
    b.sources[0].push(desc(4));
    b.sources[0].publish();
    while b.host.pass(0) {}
    assert_eq!(drain(&mut b.sinks[0]), [3, 4]);
    assert_eq!(b.host.page.status().bad_descriptors.load(Relaxed), 4);
    assert_eq!(b.host.page.queue(0).bad.load(Relaxed), 4);
}

#[test]
fn a_held_packet_goes_on_behind_its_holder() {
    struct Holder(Option<HoldId>);
    impl NfObject for Holder {
        fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
            let unused = ctx.hold();
            let id = ctx.hold();
            assert!(unused.is_some() && id.is_some());
            if let Some(id) = id {
                burst.set(0, Verdict::hold(id));
                self.0 = Some(id);
            }
        }
        fn tick(&mut self, ctx: &mut Ctx<'_>) {
            if let Some(id) = self.0.take() {
                assert!(ctx.with_held(id, |p| p.data_mut()[0] = 0xab));
                assert!(ctx.release(id, Verdict::NEXT));
                assert!(!ctx.release(id, Verdict::NEXT), "a second release finds nothing");
            }
        }
        fn report(&self) -> Option<String> {
            None
        }
    }
    let seen = Arc::new(AtomicU64::new(0));
    let second = {
        let seen = seen.clone();
        nf(move |_, p, _| {
            seen.fetch_add(u64::from(p.data()[0] == 0xab) << 32 | 1, Relaxed);
            Verdict::NEXT
        })
    };
    let mut b = bench(vec![Box::new(Holder(None)), second], &[1], 64, 32);
    fill(&mut b.sources[0], 0..4);
    while b.host.pass(0) {}
    assert_eq!(drain(&mut b.sinks[0]), [1, 2, 3]);
    assert_eq!(b.host.holds.held(), 1, "the unused reservation ended with the call");
    b.host.tick(1);
    assert_eq!(drain(&mut b.sinks[0]), [0]);
    assert_eq!(seen.load(Relaxed), 1 << 32 | 4, "the second NF saw all four, and the change");
    assert_eq!((b.host.holds.held(), b.host.page.status().busy.load(Relaxed)), (0, 0));
    assert!(b.host.page.holds().iter().all(|w| w.load(Relaxed) == 0));
    let passed = |nf: usize| b.host.page.nf(nf).passed.load(Relaxed);
    assert_eq!((passed(0), passed(1)), (4, 4), "what was released has passed");
}

#[test]
fn a_released_packet_can_be_dropped() {
    struct Dropper(Option<HoldId>);
    impl NfObject for Dropper {
        fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
            self.0 = ctx.hold();
            burst.set(0, self.0.map_or(Verdict::NEXT, Verdict::hold));
        }
        fn tick(&mut self, ctx: &mut Ctx<'_>) {
            let reason: Reason = chainline_nf::Env::new(std::path::Path::new(""), &[]).drop_reason("late");
            self.0.take().map(|id| ctx.release(id, Verdict::drop(reason)));
        }
        fn report(&self) -> Option<String> {
            None
        }
    }
    let mut b = bench(vec![Box::new(Dropper(None))], &[1], 64, 32);
    fill(&mut b.sources[0], 0..1);
    while b.host.pass(0) {}
    assert!(drain(&mut b.sinks[0]).is_empty() && drain(&mut b.back).is_empty());
    b.host.tick(1);
    assert_eq!(drain(&mut b.back), [0]);
}

/// Without credit the NF works on everything, and what the next queue has no room for goes back, as the NF left it.
#[test]
fn without_credit_what_does_not_fit_comes_back() {
    let worked = Arc::new(AtomicU64::new(0));
    let count = worked.clone();
    let trims = nf(move |_, p: &mut Packet<'_>, _| {
        count.fetch_add(1, Relaxed);
        assert!(p.set_len(50));
        Verdict::NEXT
    });
    let mut b = bench(vec![nf(|_, _, _| Verdict::NEXT), trims], &[1], 64, 32);
    b.host.credit = false;
    b.host.inlets[0].needs = vec![RETURN];
    for round in 0..3 {
        fill(&mut b.sources[0], round * 60..round * 60 + 60);
        while b.host.pass(0) {}
    }
    assert_eq!(worked.load(Relaxed), 180);
    assert_eq!(drain(&mut b.sinks[0]), (0..64).collect::<Vec<_>>());
    let n = b.back.available(4096);
    let back: Vec<Desc> = (0..n).map(|i| b.back.peek(i)).collect();
    assert_eq!(back.iter().map(|d| d.buf.index()).collect::<Vec<_>>(), (64..180).collect::<Vec<_>>());
    assert!(back.iter().all(|d| (d.hop, d.tag, d.len) == (1, TAG_QUEUE_FULL, 50)), "{back:?}");
}

/// The return queue is the one that there must be room in: without, packets wait.
#[test]
fn without_credit_there_is_room_for_all_that_may_come_back() {
    let mut b = bench(vec![nf(|_, _, _| Verdict::NEXT)], &[1], 16, 32);
    b.host.credit = false;
    b.host.inlets[0].needs = vec![RETURN];
    let back = Ring::create(32).unwrap();
    b.host.outlets[RETURN].producer = Producer::attach(back.clone());
    let mut back = Consumer::attach(back);
    for round in 0..4 {
        fill(&mut b.sources[0], round * 16..round * 16 + 16);
        while b.host.pass(0) {}
    }
    // The first sixteen went on, then the return queue was full.
    assert_eq!((drain(&mut back).len(), b.host.inlets[0].consumer.available(64)), (32, 16));
    while b.host.pass(0) {}
    assert_eq!((drain(&mut back).len(), b.host.inlets[0].consumer.available(64)), (16, 0));
    assert_eq!(drain(&mut b.sinks[0]).len(), 16);
}

/// Writes ten bytes for each packet and holds it until that is in the file.
struct Writes(chainline_nf::File);

impl NfObject for Writes {
    fn process(&mut self, burst: &mut Burst<'_>, ctx: &mut Ctx<'_>) {
        for (_, verdict) in burst.iter_mut() {
            let id = ctx.hold().expect("a place for each packet that was taken");
            ctx.write(self.0, &[b"0123", b"456789"], Some(id.to_bits().into())).expect("room for each packet");
            *verdict = Verdict::hold(id);
        }
    }
    fn tick(&mut self, _: &mut Ctx<'_>) {}
    fn completed(&mut self, done: &chainline_nf::Completion<'_>, ctx: &mut Ctx<'_>) {
        assert_eq!((done.result, done.count), (Ok(10), 1));
        assert!(ctx.release(HoldId::from_bits(done.context.unwrap() as u32), Verdict::NEXT));
        let more = ctx.write(self.0, &[b"for ever"], None);
        assert_eq!(more, Err(chainline_nf::Refused::Ending), "only asked when the instance ends");
    }
    fn report(&self) -> Option<String> {
        None
    }
}

#[test]
fn packets_are_taken_as_files_and_places_have_room_and_the_end_waits() {
    let path = std::env::temp_dir().join(format!("chainline-host-{}", std::process::id()));
    let spec = chainline_nf::FileSpec {
        batch_bytes: 100,
        packet_bytes: 10,
        flush_ms: 60_000,
        ..chainline_nf::FileSpec::append(&path)
    };
    let mut b = bench(vec![Box::new(Writes(chainline_nf::File::from_bits(0)))], &[1], 256, 32);
    let bell = b.host.own_bell.clone();
    let waker = Arc::new(move || _ = bell.ring());
    b.host.storage = Storage::open(&[&[spec]], chainline_storage::Choice::Auto, waker).unwrap();
    (b.host.inlets[0].with_files, b.host.inlets[0].may_hold) = (vec![0], true);
    // The NF is refused what it asks for when it is told, so that it can be asked here what it is told.
    b.host.storage.set_ending();
    fill(&mut b.sources[0], 0..100);
    let mut out = Vec::new();
    // Places for 16 packets, buffers for 20: 16 are taken, and no more until something is written.
    assert!(b.host.pass(0));
    assert_eq!((b.host.holds.held(), b.host.inlets[0].consumer.available(u32::MAX)), (16, 84));
    assert!(!b.host.pass(0) && !b.host.may_go_on(false) && b.host.waits_for_files());
    assert_eq!(b.host.page.status().io.load(Relaxed), 0);
    b.host.move_files();
    assert_eq!(b.host.page.status().io.load(Relaxed), 1);
    let spent = allocation_counter::measure(|| {
        while b.host.inlets[0].consumer.available(1) > 0 {
            let worked = b.host.pass(0) | b.host.move_files();
            if !worked {
                // Sleeps, and asks for what is filling to be written.
                b.host.idle(false);
            }
        }
    });
    assert_eq!(spent.count_total, 0);
    // The last packets are in a buffer that is neither full nor old.
    assert!(b.host.storage.pending());
    b.host.end_files();
    out.extend(drain(&mut b.sinks[0]));
    assert_eq!(out, (0..100).collect::<Vec<_>>());
    assert_eq!((b.host.holds.held(), b.host.page.status().io.load(Relaxed)), (0, 0));
    assert_eq!(b.host.page.status().busy.load(Relaxed), 0);
    let written = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(written, "0123456789".repeat(100));
    let report = b.host.storage.finish().remove(0).unwrap();
    assert_eq!((report.files[0].bytes_written, report.files[0].errors), (1000, 0));
}

/// Writes an IPv4 UDP frame of a flow into a buffer.
fn write_flow(host: &mut Host, index: u32, flow: u8) {
    let mut loan = host.slots.open();
    let frame = &mut loan.take(desc(index)).unwrap()[usize::from(HEADROOM)..][..60];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..38]
        .copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, flow, 10, 0, 1, 1, 4, 0, 0, 53]);
    frame[38..42].copy_from_slice(&[0, 26, 0, 0]);
}

/// A bench whose packets go to three replicas, dealt out by flow; the first one's queue is the bench's own.
fn split(capacity: u32) -> (Bench, Vec<Consumer>) {
    let mut b = bench(vec![nf(|_, _, _| Verdict::NEXT)], &[1], capacity, 32);
    let mut others = Vec::new();
    for _ in 0..2 {
        let ring = Ring::create(64).unwrap();
        let bell = Bell::create().unwrap();
        let producer = Producer::attach(ring.clone());
        b.host.outlets.push(Outlet { producer, bell, wake_at: 32, urgent: false, same_core: false, chain: 0, hop: 1 });
        others.push(Consumer::attach(ring));
    }
    let dealer = crate::split::Dealer::new(crate::split::Dispatch::Flow, 3);
    b.host.splits.push(crate::split::Split { dealer, outs: vec![1, 2, 3] });
    let inlet = &mut b.host.inlets[0];
    inlet.next = b.host.outlets.len();
    (inlet.outs, inlet.needs) = (vec![0, 1, 2, 3], vec![0, 1, 2, 3]);
    (b, others)
}

#[test]
fn a_flow_stays_with_its_replica_in_order_and_nothing_is_allocated() {
    let (mut b, mut others) = split(64);
    let mut seen: Vec<Vec<(u8, u32)>> = vec![Vec::new(); 3];
    for round in 0..10u32 {
        // Each flow has every sixteenth packet.
        (0..48).for_each(|i| write_flow(&mut b.host, round * 48 + i, (i % 16) as u8));
        fill(&mut b.sources[0], round * 48..round * 48 + 48);
        let host = &mut b.host;
        let spent = allocation_counter::measure(|| while host.pass(0) {});
        assert_eq!(spent.count_total, 0);
        let queues = std::iter::once(&mut b.sinks[0]).chain(&mut others);
        for (seen, queue) in seen.iter_mut().zip(queues) {
            seen.extend(drain(queue).into_iter().map(|i| ((i % 48 % 16) as u8, i)));
        }
    }
    assert_eq!(seen.iter().map(Vec::len).sum::<usize>(), 480);
    for (k, own) in seen.iter().enumerate() {
        assert!(!own.is_empty(), "replica {k} has some of sixteen flows");
        assert!(own.is_sorted_by_key(|(_, i)| *i), "in order");
        for (other, theirs) in seen.iter().enumerate().filter(|(other, _)| *other != k) {
            assert!(own.iter().all(|(flow, _)| theirs.iter().all(|(f, _)| f != flow)), "{k} and {other} share a flow");
        }
    }
}

#[test]
fn a_packet_is_taken_only_with_room_for_it_at_every_replica() {
    let (mut b, mut others) = split(256);
    // All of one flow, so of one replica, whose queue of 64 nobody empties.
    (0..200).for_each(|i| write_flow(&mut b.host, i, 7));
    fill(&mut b.sources[0], 0..200);
    while b.host.pass(0) {}
    let mut queues: Vec<&mut Consumer> = std::iter::once(&mut b.sinks[0]).chain(&mut others).collect();
    let full = queues.iter_mut().position(|q| q.available(1) > 0).unwrap();
    let took = queues[full].available(u32::MAX);
    assert!(took <= if full == 0 { 256 } else { 64 }, "{took}");
    assert_eq!(b.back.available(1), 0, "nothing is dropped");
    let first = drain(queues[full]);
    while b.host.pass(0) {}
    let then = drain(queues[full]);
    assert_eq!(
        first.iter().chain(&then).copied().collect::<Vec<_>>(),
        (0..first.len() as u32 + then.len() as u32).collect::<Vec<_>>()
    );
    // Without credit the rest is dropped as it does not fit.
    b.host.credit = false;
    b.host.inlets[0].needs = vec![RETURN];
    b.host.inlets[0].blocked = false;
    while b.host.pass(0) {}
    let last = drain(queues[full]).len() as u32;
    let dropped = b.back.available(u32::MAX);
    assert_eq!(first.len() as u32 + then.len() as u32 + last + dropped, 200);
    assert!((0..dropped).all(|i| b.back.peek(i).tag == TAG_QUEUE_FULL));
}

/// An instance with crumbs to do rests for whoever it woke on its core, and goes on with a burst.
#[test]
fn gives_way_when_it_has_less_than_a_burst() {
    let mut b = bench(vec![nf(|_, _, _| Verdict::NEXT)], &[1], 256, 32);
    b.host.outlets[1].same_core = true;
    let consumer = b.host.outlets[1].bell.clone();
    let push = |b: &mut Bench, n: u32| {
        for i in 0..n {
            b.sources[0].push(desc(i));
        }
        b.sources[0].publish();
    };
    push(&mut b, 5);
    assert!(b.host.pass(0) && b.host.gives_way(), "the next one is awake");
    consumer.announce_sleep();
    assert!(!b.host.gives_way(), "nobody waits");
    consumer.stay_awake();
    b.host.outlets[1].same_core = false;
    assert!(!b.host.gives_way(), "it has a core of its own");
    b.host.outlets[1].same_core = true;
    push(&mut b, 40);
    assert!(b.host.pass(0) && !b.host.gives_way(), "eight more were there before");
    assert!(b.host.pass(0) && b.host.gives_way());
    push(&mut b, 31);
    assert!(!b.host.may_go_on(true) && b.host.may_go_on(false), "less than a burst");
    push(&mut b, 1);
    assert!(b.host.may_go_on(true), "a burst");
}
