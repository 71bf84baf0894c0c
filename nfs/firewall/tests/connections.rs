//! The stateful mode: against a slow model on random packets, and under floods.

#![allow(clippy::unwrap_used)]

#[path = "../../forward/tests/support/mod.rs"]
mod support;

use proptest::prelude::*;
use serde_json::json;
use support::{Host, ipv4, ipv6, l4};

const MS: u64 = 1_000_000;

/// Rows are states, columns who sends which flags: the originator (O) or the peer (P), S(YN), SA, A(CK), F(IN), R(ST).
/// `x` is invalid, `-` passes and changes nothing, `end` passes and
/// ends it, `new` begins a new connection if the rules allow it. Lower-case letters say who closed
/// first.
const TCP: &str = "
     O.S  O.SA O.A  O.F  O.R  P.S  P.SA P.A  P.F  P.R
SS   SS   x    x    x    end  S2   SR   -    x    end
S2   S2   SR   x    x    CL   S2   SR   x    x    CL
SR   -    SR   ES   FWo  CL   x    SR   SR   FWp  CL
ES   -    x    ES   FWo  CL   x    -    ES   FWp  CL
FWo  -    x    FWo  FWo  CL   x    -    CWo  LAo  CL
FWp  -    x    CWp  LAp  CL   x    -    FWp  FWp  CL
CWo  -    x    CWo  CWo  CL   x    -    CWo  LAo  CL
CWp  -    x    CWp  LAp  CL   x    -    CWp  CWp  CL
LAo  -    x    TW   LAo  CL   x    -    LAo  LAo  CL
LAp  -    x    LAp  LAp  CL   x    -    TW   LAp  CL
TW   new  x    TW   TW   CL   new  -    TW   TW   CL
CL   new  x    CL   CL   CL   new  -    CL   CL   CL
";

/// Seconds by state; none is a multiple of another's so that one in place of another shows.
const TIMEOUTS: [(&str, &str, u64); 12] = [
    ("SS", "tcp_syn_sent_s", 11),
    ("SR", "tcp_syn_received_s", 7),
    ("ES", "tcp_established_s", 60),
    ("FW", "tcp_fin_wait_s", 13),
    ("CW", "tcp_close_wait_s", 17),
    ("LA", "tcp_last_ack_s", 5),
    ("TW", "tcp_time_wait_s", 9),
    ("CL", "tcp_closed_s", 3),
    ("U1", "udp_s", 4),
    ("U2", "udp_stream_s", 19),
    ("EC", "icmp_s", 6),
    ("OT", "other_s", 8),
];

fn timeout_ns(state: &str) -> u64 {
    let state = if state == "S2" { "SS" } else { &state[..2] };
    TIMEOUTS.iter().find(|t| t.0 == state).unwrap().2 * 1000 * MS
}

type End = (u8, u16);

#[derive(Clone, Debug)]
struct Sent {
    v6: bool,
    proto: u8,
    src: End,
    dst: End,
    /// TCP: flags. ICMP: 1 is a request, 0 a reply; the identifier is the source's port.
    flags: &'static str,
}

struct Connection {
    v6: bool,
    proto: u8,
    origin: End,
    peer: End,
    state: String,
    ends_ns: u64,
}

#[derive(Default)]
struct Model(Vec<Connection>);

impl Model {
    /// The verdict, by a search through all connections.
    fn verdict(&mut self, p: &Sent, now_ns: u64) -> &'static str {
        // Deadlines are kept in milliseconds or so, rounded up.
        self.0.retain(|c| now_ns < c.ends_ns + 10 * MS);
        let (src, dst) = if p.proto == 1 { ((p.src.0, p.src.1), (p.dst.0, p.src.1)) } else { (p.src, p.dst) };
        let asked_by = if p.proto == 1 { Some(if p.flags == "1" { src } else { dst }) } else { None };
        let found = self.0.iter().position(|c| {
            (c.v6, c.proto) == (p.v6, p.proto)
                && ((c.origin, c.peer) == (src, dst) || (c.peer, c.origin) == (src, dst))
                && asked_by.is_none_or(|asker| asker == c.origin)
        });
        let next = found.map(|i| {
            let c = &self.0[i];
            let origin = c.origin == src;
            match p.proto {
                6 => transition(&c.state, if origin { "O" } else { "P" }, p.flags),
                17 if !origin => "U2".into(),
                _ => c.state.clone(),
            }
        });
        match (found, next.as_deref()) {
            (_, Some("x")) => return "invalid_state",
            (_, Some("-")) => return "next",
            (Some(i), Some("end")) => {
                self.0.remove(i);
                return "next";
            }
            (Some(i), Some("new")) if p.dst.1 == 80 => {
                self.0.remove(i);
            }
            (Some(_), Some("new")) => {}
            (Some(i), Some(state)) => {
                let ends_ns = now_ns + timeout_ns(state);
                self.0[i].state = state.to_owned();
                self.0[i].ends_ns = ends_ns;
                return "next";
            }
            _ => {}
        }
        let state = match (p.proto, p.flags) {
            (6, "S") => "SS",
            (17, _) => "U1",
            (1, "1") => "EC",
            (47, _) => "OT",
            _ => return "invalid_state",
        };
        let allowed = match p.proto {
            6 => p.dst.1 == 80,
            17 => p.dst.1 == 53,
            47 => p.src.0 == 1,
            _ => true,
        };
        if !allowed {
            return "denied_by_default";
        }
        let ends_ns = now_ns + timeout_ns(state);
        self.0.push(Connection { v6: p.v6, proto: p.proto, origin: src, peer: dst, state: state.into(), ends_ns });
        "next"
    }
}

fn transition(state: &str, who: &str, flags: &str) -> String {
    let mut rows = TCP.lines().filter(|l| !l.is_empty()).map(|l| l.split_whitespace().collect::<Vec<_>>());
    let heads = rows.next().unwrap();
    let Some(column) = heads.iter().position(|h| *h == format!("{who}.{flags}")) else { return "x".into() };
    rows.find(|r| r[0] == state).unwrap()[column + 1].to_owned()
}

fn frame(p: &Sent) -> Vec<u8> {
    let mut payload = l4(p.proto, p.src.1, p.dst.1);
    match p.proto {
        6 => payload[13] = p.flags.bytes().map(|c| 1 << "FSRPA".find(char::from(c)).unwrap()).sum(),
        1 => {
            let kind = match (p.v6, p.flags) {
                (false, "1") => 8,
                (false, _) => 0,
                (true, "1") => 128,
                (true, _) => 129,
            };
            payload[..4].copy_from_slice(&[kind, 0, 0, 0]);
            payload[4..6].copy_from_slice(&p.src.1.to_be_bytes());
        }
        _ => {}
    }
    if p.v6 {
        let address = |n: u8| 0x2001_0db8 << 96 | u128::from(n);
        return ipv6(address(p.src.0), address(p.dst.0), if p.proto == 1 { 58 } else { p.proto }, 9, &payload);
    }
    ipv4(0x0a00_0000 + u32::from(p.src.0), 0x0a00_0000 + u32::from(p.dst.0), p.proto, 9, &payload)
}

fn tcp() -> impl Strategy<Value = Sent> {
    let flags = prop_oneof![
        3 => Just("S"), 2 => Just("SA"), 6 => Just("A"), 2 => Just("PA"), 2 => Just("FA"), 1 => Just("R"),
        1 => Just("SF"), 1 => Just("F"), 1 => Just("P"),
    ];
    (any::<bool>(), any::<bool>(), 0u8..2, flags).prop_map(|(v6, back, host, flags)| {
        let ends = [(host, 1000), (2, 80)];
        let [src, dst] = if back { [ends[1], ends[0]] } else { ends };
        Sent { v6, proto: 6, src, dst, flags }
    })
}

fn any_packet() -> impl Strategy<Value = Sent> {
    let end = || (1u8..3, prop_oneof![Just(53u16), Just(80), Just(1000)]);
    let others = (any::<bool>(), prop_oneof![Just(17u8), Just(1), Just(47)], end(), end(), any::<bool>()).prop_map(
        |(v6, proto, mut src, mut dst, request)| {
            if proto == 47 {
                (src.1, dst.1) = (0, 0);
            }
            Sent { v6, proto, src, dst, flags: if request { "1" } else { "0" } }
        },
    );
    // Who pings himself is not asked by anybody: which of the two asked is not defined.
    let others = others.prop_filter("a ping to oneself", |p| p.proto != 1 || p.src.0 != p.dst.0);
    // Also both ends the same, which only a forger sends.
    let odd = (any::<bool>(), end(), end(), prop_oneof![Just("S"), Just("A"), Just("SA")])
        .prop_map(|(v6, src, dst, flags)| Sent { v6, proto: 6, src, dst, flags });
    prop_oneof![4 => tcp(), 2 => others, 1 => odd]
}

/// The flags that the model knows: PSH says nothing, and FIN comes with ACK.
fn plain(p: &Sent) -> Sent {
    let flags = match (p.proto, p.flags) {
        (6, "PA") => "A",
        (6, "FA") => "F",
        (6, "F" | "P" | "SF") => "odd",
        (_, flags) => flags,
    };
    Sent { flags, ..p.clone() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn states_are_as_in_the_model(
        bursts in proptest::collection::vec((0u64..12, proptest::collection::vec(any_packet(), 1..12)), 1..80),
        ticks: bool,
    ) {
        let timeouts: serde_json::Map<_, _> = TIMEOUTS.iter().map(|(_, name, s)| ((*name).into(), json!(s))).collect();
        let rules = ["allow tcp to any port 80", "allow udp to any port 53", "allow icmp type 8", "allow icmp6 type 128",
            "allow proto 47 from 10.0.0.1 to any", "allow proto 47 from 2001:db8::1 to any"];
        let args = json!({"rules_inline": rules, "stateful": {"connections": 64, "connections6": 64, "timeouts": timeouts}});
        let mut host = Host::new(&nf_firewall::KIND, args);
        let mut model = Model::default();
        // Steps of 300 ms, and a few long ones.
        let mut now_ns = 0;
        for (step, packets) in bursts {
            now_ns += if step == 11 { 20_000 * MS } else { step * 300 * MS };
            if ticks {
                host.tick(now_ns);
            }
            let mut frames: Vec<_> = packets.iter().map(frame).collect();
            let before = frames.clone();
            let seen: Vec<String> = host.play(now_ns, &mut frames).iter().map(|v| (*v).to_owned()).collect();
            for (p, seen) in packets.iter().zip(seen) {
                let expected = model.verdict(&plain(p), now_ns);
                prop_assert_eq!(seen, expected, "{:?} at {} ms", p, now_ns / MS);
            }
            prop_assert_eq!(frames, before);
        }
    }
}

const CAPACITY: u64 = 65_536;
const OPEN: u32 = 1000;
const FLOOD: u32 = 1_000_000;

fn segment(src: u32, dst: u32, ports: [u16; 2], flags: u8) -> Vec<u8> {
    let mut payload = l4(6, ports[0], ports[1]);
    payload[13] = flags;
    ipv4(src, dst, 6, 9, &payload)
}

/// Opens connections, lets a million hosts send a SYN each, and looks whether the connections still pass.
fn flooded(on_full: &str) -> (Host, u64, u64) {
    const SERVER: u32 = 0xc000_0201;
    let args = json!({"rules_inline": ["allow tcp to any port 80"],
        "stateful": {"connections": CAPACITY, "connections6": 1, "on_full": on_full}});
    let mut host = Host::new(&nf_firewall::KIND, args);
    let client = |i: u32| 0x0a00_0000 + i;
    let talk = |host: &mut Host, flags: &[(bool, u8)]| {
        let mut passed = 0;
        for i in 0..OPEN {
            let segments = flags.iter().map(|(back, flags)| match back {
                false => segment(client(i), SERVER, [1000, 80], *flags),
                true => segment(SERVER, client(i), [80, 1000], *flags),
            });
            passed += host.play(MS, &mut segments.collect::<Vec<_>>()).iter().filter(|v| **v == "next").count();
        }
        passed as u64
    };
    assert_eq!(talk(&mut host, &[(false, 2), (true, 18), (false, 16)]), 3 * u64::from(OPEN));
    let mut passed = 0;
    for batch in 0..FLOOD / 250 {
        let syns = (0..250).map(|i| segment(0x6400_0000 + batch * 250 + i, SERVER, [1000, 80], 2));
        let now_ns = MS + u64::from(batch) * 1000;
        passed += host.play(now_ns, &mut syns.collect::<Vec<_>>()).iter().filter(|v| **v == "next").count() as u64;
        if batch % 16 == 0 {
            host.tick(now_ns);
        }
    }
    let open = talk(&mut host, &[(false, 16), (true, 24)]) / 2;
    (host, passed, open)
}

#[test]
fn a_flood_of_syns_displaces_itself() {
    let (host, passed, open) = flooded("evict_oldest");
    assert_eq!((passed, open), (FLOOD.into(), OPEN.into()));
    assert_eq!(host.counter("connections"), CAPACITY);
    assert_eq!(host.counter("connections_added"), u64::from(OPEN + FLOOD));
    assert_eq!(host.counter("connections_evicted"), u64::from(OPEN + FLOOD) - CAPACITY);
    assert_eq!(["connections_refused", "stateless", "out_of_state"].map(|c| host.counter(c)), [0; 3]);
    assert_eq!((host.counter("rule_1"), host.counter("by_state")), (u64::from(OPEN + FLOOD), u64::from(4 * OPEN)));
}

#[test]
fn a_flood_of_syns_is_refused() {
    let (host, passed, open) = flooded("drop_new");
    assert_eq!((passed, open), (CAPACITY - u64::from(OPEN), OPEN.into()));
    assert_eq!(host.counter("connections_added"), CAPACITY);
    assert_eq!(host.counter("connections_refused"), u64::from(OPEN + FLOOD) - CAPACITY);
    assert_eq!(["connections_evicted", "stateless", "out_of_state"].map(|c| host.counter(c)), [0; 3]);
}

#[test]
fn a_flood_of_syns_goes_by_the_rules() {
    let (host, passed, open) = flooded("bypass");
    assert_eq!((passed, open), (FLOOD.into(), OPEN.into()));
    assert_eq!(host.counter("connections_added"), CAPACITY);
    assert_eq!(host.counter("stateless"), u64::from(OPEN + FLOOD) - CAPACITY);
    assert_eq!(["connections_evicted", "out_of_state"].map(|c| host.counter(c)), [0; 2]);
}
