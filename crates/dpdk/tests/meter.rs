//! Meters against the arithmetic of RFC 2697 and 2698: whole tokens, in integers, nothing rounded.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use chainline_dpdk::meter::{Clock, Colour, Item, MAX_RATE, MAX_TICKS, MeterError, Meters, Model};
use proptest::prelude::*;

/// The RFCs as they are written: at time t of a meter, ⌊rate · t⌋ tokens have come.
#[derive(Clone, Debug)]
struct Rfc {
    model: Model,
    start_ns: u64,
    /// Tokens that have come at each rate.
    come: [u64; 2],
    /// Tc and Te, or Tc and Tp.
    tokens: [u64; 2],
}

impl Rfc {
    fn new(model: Model, start_ns: u64) -> Self {
        let tokens = match model {
            Model::SrTcm { cbs, ebs, .. } => [cbs, ebs],
            Model::TrTcm { cbs, pbs, .. } => [cbs, pbs],
        };
        Self { model, start_ns, come: [0; 2], tokens }
    }

    /// Tokens that came at a rate since the last time.
    fn new_tokens(&mut self, which: usize, rate: u64, now_ns: u64) -> u64 {
        let all = u128::from(rate) * u128::from(now_ns - self.start_ns) / 1_000_000_000;
        let new = all as u64 - self.come[which];
        self.come[which] = all as u64;
        new
    }

    fn colour(&mut self, now_ns: u64, len: u64, before: Colour) -> Colour {
        match self.model {
            // RFC 2697 §3: each token goes to Tc if it is below CBS, else to Te if that is below EBS, else is lost.
            Model::SrTcm { cir, cbs, ebs } => {
                let new = self.new_tokens(0, cir, now_ns);
                let to_c = new.min(cbs - self.tokens[0]);
                self.tokens[0] += to_c;
                self.tokens[1] += (new - to_c).min(ebs - self.tokens[1]);
                if before == Colour::Green && self.tokens[0] >= len {
                    self.tokens[0] -= len;
                    Colour::Green
                } else if before != Colour::Red && self.tokens[1] >= len {
                    self.tokens[1] -= len;
                    Colour::Yellow
                } else {
                    Colour::Red
                }
            }
            // RFC 2698 §3.
            Model::TrTcm { cir, cbs, pir, pbs } => {
                self.tokens[0] = (self.tokens[0] + self.new_tokens(0, cir, now_ns)).min(cbs);
                self.tokens[1] = (self.tokens[1] + self.new_tokens(1, pir, now_ns)).min(pbs);
                if before == Colour::Red || self.tokens[1] < len {
                    Colour::Red
                } else if before == Colour::Yellow || self.tokens[0] < len {
                    self.tokens[1] -= len;
                    Colour::Yellow
                } else {
                    self.tokens[0] -= len;
                    self.tokens[1] -= len;
                    Colour::Green
                }
            }
        }
    }
}

fn rate() -> impl Strategy<Value = u64> {
    prop_oneof![1u64..100, 1u64..3_000_000, (1u64..1_000_000).prop_map(|r| r * 125), Just(999_983)]
}

fn model() -> impl Strategy<Value = Model> {
    let bucket = || prop_oneof![1u64..4000, 1u64..200_000];
    prop_oneof![
        (rate(), 0u64..4000, bucket()).prop_map(|(cir, cbs, ebs)| Model::SrTcm { cir, cbs, ebs }),
        (rate(), bucket(), 0u64..4000).prop_map(|(cir, cbs, ebs)| Model::SrTcm { cir, cbs, ebs }),
        (rate(), bucket(), rate(), bucket()).prop_map(|(a, cbs, b, pbs)| Model::TrTcm {
            cir: a.min(b),
            cbs,
            pir: a.max(b),
            pbs
        }),
    ]
}

fn before(n: u8) -> Colour {
    Colour::ALL[usize::from(n % 3)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn colours_are_those_of_the_rfcs(
        models in prop::collection::vec(model(), 1..4),
        start_ns in prop_oneof![Just(0u64), any::<u32>().prop_map(u64::from), Just(1u64 << 55)],
        bursts in prop::collection::vec(
            (prop_oneof![0u64..2000, 0u64..3_000_000, 0u64..20_000_000_000],
             prop::collection::vec((0usize..6, 1u16..1600, 0u8..3), 1..20)),
            1..40),
    ) {
        // Two meters a profile, so that bursts are mixed.
        let meters = Meters::new(&models, models.len() * 2);
        if let Err(MeterError::Incommensurable { cir, pir }) = &meters {
            prop_assert!(u128::from(*cir) * u128::from(*pir) > u128::from(MAX_TICKS));
            return Ok(());
        }
        let mut meters = meters.unwrap();
        meters.advance(start_ns);
        let mut rfcs = Vec::new();
        for n in 0..models.len() * 2 {
            meters.start(n as u32, (n / 2) as u8);
            rfcs.push(Rfc::new(models[n / 2], start_ns));
        }
        let mut now_ns = start_ns;
        for (gap, packets) in bursts {
            now_ns += gap;
            meters.advance(now_ns);
            let count = rfcs.len();
            let of = |m: usize| m % count;
            let mut items: Vec<Item> = packets.iter()
                .map(|(m, len, c)| Item::new(of(*m) as u32, (of(*m) / 2) as u8, *len, before(*c))).collect();
            meters.colour(&mut items);
            for ((m, len, c), item) in packets.iter().zip(&items) {
                let n = of(*m);
                prop_assert_eq!(item.colour(), rfcs[n].colour(now_ns, u64::from(*len), before(*c)), "{:?}", models[n]);
            }
        }
    }

    #[test]
    fn clocks_lose_nothing(rate in prop_oneof![1u64..1000, 1..=MAX_TICKS], gaps in prop::collection::vec(0u64..30_000_000_000, 1..200)) {
        let mut clock = Clock::new(rate);
        let (mut now, start) = (77u64, 77u64);
        prop_assert_eq!(clock.read(start), 0);
        for gap in gaps {
            now += gap;
            let exact = u128::from(now - start) * u128::from(rate) / 1_000_000_000;
            prop_assert_eq!(clock.read(now), exact as u64);
            // Back in time is no time.
            prop_assert_eq!(clock.read(start), exact as u64);
        }
    }
}

/// Offered twice the rate for a simulated hour, what is green is the rate within one burst, at rates that a whole number
/// of nanoseconds does not divide as well.
#[test]
fn long_run_rates_are_exact_within_one_burst() {
    for cir in [1_000u64, 999_983, 1_249_875, 9_999_999, 10_000_001] {
        let (cbs, len, seconds) = (3_000u64, 1_000u16, 3_600u64);
        let gap_ns = u64::from(len) * 1_000_000_000 / (2 * cir);
        let mut meters =
            Meters::new(&[Model::SrTcm { cir, cbs, ebs: 0 }, Model::TrTcm { cir, cbs, pir: cir * 3, pbs: cbs * 3 }], 2)
                .unwrap();
        meters.advance(0);
        meters.start(0, 0);
        meters.start(1, 1);
        let (mut green, mut now_ns) = ([0u64; 2], 0);
        // A thousandth of the packets of an hour for the fast ones: the rest does not build up.
        let seconds = if cir > 100_000 { seconds / 60 } else { seconds };
        while now_ns < seconds * 1_000_000_000 {
            meters.advance(now_ns);
            let mut items = [Item::new(0, 0, len, Colour::Green), Item::new(1, 1, len, Colour::Green)];
            meters.colour(&mut items);
            for (bytes, item) in green.iter_mut().zip(&items) {
                *bytes += u64::from(len) * u64::from(item.colour() == Colour::Green);
            }
            now_ns += gap_ns;
        }
        let exact = cir * seconds;
        for bytes in green {
            assert!(bytes <= exact + cbs && bytes + cbs >= exact, "{cir}: {bytes} bytes, exactly {exact}");
        }
    }
}

#[test]
fn wrong_models_are_refused() {
    let refused = |model: Model| Meters::new(&[model], 1).unwrap_err().to_string();
    assert_eq!(refused(Model::SrTcm { cir: 0, cbs: 1, ebs: 1 }), format!("cir: found 0, expected 1 to {MAX_RATE}"));
    assert!(refused(Model::SrTcm { cir: 1, cbs: 0, ebs: 0 }).starts_with("ebs: found 0, expected 1 to"));
    assert!(refused(Model::TrTcm { cir: 9, cbs: 1, pir: 8, pbs: 1 }).starts_with("pir: found 8, expected 9 to"));
    assert!(refused(Model::TrTcm { cir: 1, cbs: 0, pir: 8, pbs: 1 }).starts_with("cbs: found 0"));
    let primes = refused(Model::TrTcm { cir: 99_999_989, cbs: 1, pir: 1_000_000_007, pbs: 1 });
    assert!(primes.contains("make both multiples of one rate"), "{primes}");
    assert!(Meters::new(&[Model::SrTcm { cir: 1, cbs: 1, ebs: 0 }; 257], 1).is_err());
}

#[test]
fn numbers_out_of_range_are_red_and_harmless() {
    let mut meters = Meters::new(&[Model::SrTcm { cir: 1, cbs: 100, ebs: 0 }], 1).unwrap();
    meters.advance(5);
    meters.start(0, 0);
    meters.start(1, 0);
    meters.start(0, 1);
    for wrong in [Item::new(1, 0, 10, Colour::Green), Item::new(0, 1, 10, Colour::Green)] {
        let mut items = [Item::new(0, 0, 10, Colour::Green), wrong];
        meters.colour(&mut items);
        assert!(items.iter().all(|i| i.colour() == Colour::Red));
    }
    let mut all = [Item::new(0, 0, 100, Colour::Green)];
    meters.colour(&mut all);
    assert_eq!(all[0].colour(), Colour::Green, "the bucket was not touched");
    assert_eq!((meters.len(), meters.is_empty()), (1, false));
}
