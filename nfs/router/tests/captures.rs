//! Real and malformed captures: each packet gets a verdict, and what leaves has right checksums.

#![allow(clippy::unwrap_used)]

#[path = "../../../crates/packet/tests/support/mod.rs"]
mod captures;
mod frames;
#[path = "../../forward/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;

#[test]
fn every_capture_is_processed() {
    let mut host = frames::router();
    let (mut seen, mut outcomes) = (0, BTreeMap::<String, usize>::new());
    let there = captures::captures(&mut |mut all| {
        // Longer ones cannot be received: a buffer holds 9,018 bytes.
        all.retain(|f| f.len() <= 9018);
        seen += all.len();
        // Once as they are, and once as if they had been sent to the router.
        let mut to_router = all.clone();
        for frame in to_router.iter_mut().filter(|f| f.len() >= 6) {
            frame[..6].copy_from_slice(&frames::MAC);
        }
        for frames in [&mut all, &mut to_router] {
            let verdicts: Vec<String> = host.play(seen as u64, frames).into_iter().map(str::to_owned).collect();
            for (verdict, frame) in verdicts.into_iter().zip(frames) {
                if frames::TARGETS.contains(&verdict.as_str()) {
                    frames::assert_sound(frame);
                }
                *outcomes.entry(verdict).or_default() += 1;
            }
        }
    });
    if there {
        println!("{seen} packets, twice: {outcomes:?}");
        assert_eq!(outcomes.values().sum::<usize>(), 2 * seen);
        for outcome in ["lan", "wan", "other_host", "malformed", "bad_checksum", "multicast", "martian"] {
            assert!(outcomes[outcome] > 0, "{outcome}: {outcomes:?}");
        }
        println!("{} forwarded", host.counter("forwarded"));
    }
}
