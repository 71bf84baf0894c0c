//! Descriptors and queue indexes from an NF that lies.
//!
//! Input: records of 17 bytes, a byte for what happens and the two words of a descriptor.

use chainline_shm::region::{Kept, Slots};
use chainline_shm::{Consumer, Desc, Producer, Region, Ring};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;

const BUFFERS: u32 = 64;
const FRAME: u16 = 64;
const CAPACITY: u32 = 16;
/// Where a queue keeps its indexes: in lines of their own, the producer's first.
const TAIL_AT: u64 = 0;
const HEAD_AT: u64 = 128;

thread_local! {
    // Made once: their pages cost more than an input. Nothing depends on what is in them.
    static REGION: Region = Region::create(BUFFERS, FRAME).unwrap();
}

struct Record {
    what: u8,
    words: (u64, u64),
}

/// The target.
pub fn run(data: &[u8]) {
    let record = |r: &[u8]| {
        let word = |at: usize| u64::from_le_bytes(r[at..at + 8].try_into().unwrap());
        Record { what: r[0], words: (word(1), word(9)) }
    };
    let records: Vec<Record> = data.chunks_exact(17).map(record).collect();
    lend(&records);
    queue(&records);
    let words: Vec<(u64, u64)> = records.iter().map(|r| r.words).collect();
    chainline_manager::fuzz::claims(&words);
}

/// Buffers are lent against a plain model of who has which.
fn lend(records: &[Record]) {
    let region = REGION.with(Clone::clone);
    let stride = region.stride();
    let mut slots = Slots::new(region);
    let mut kept: Vec<Kept> = Vec::new();
    let mut gone: BTreeSet<u32> = BTreeSet::new();
    let inside = |d: &Desc| d.buf.index() < BUFFERS && u32::from(d.off) + u32::from(d.len) <= stride;
    let mut records = records.iter().peekable();
    while records.peek().is_some() {
        let mut lent = BTreeSet::new();
        let mut buffers = Vec::new();
        let mut loan = slots.open();
        while let Some(r) = records.next_if(|r| r.what % 4 == 0) {
            let d = Desc::from_words(r.words.0, r.words.1);
            let index = d.buf.index();
            let expected = inside(&d) && !gone.contains(&index) && !lent.contains(&index);
            let got = loan.take(d);
            assert_eq!(got.is_some(), expected, "{d:?}");
            if let Some(buffer) = got {
                buffer.fill(index as u8);
                lent.insert(index);
                buffers.push((index, buffer));
            }
        }
        for (index, buffer) in &buffers {
            assert!(buffer.len() == stride as usize && buffer.iter().all(|b| *b == *index as u8), "two have {index}");
        }
        drop(buffers);
        let Some(r) = records.next() else { break };
        let d = Desc::from_words(r.words.0, r.words.1);
        match (r.what % 4, kept.last_mut()) {
            (1, _) => {
                let got = slots.keep(d);
                assert_eq!(got.is_some(), inside(&d) && !gone.contains(&d.buf.index()), "{d:?}");
                gone.extend(got.iter().map(|k| k.desc().buf.index()));
                kept.extend(got);
            }
            (2, Some(last)) => {
                let moved = last.set_frame(d.off, d.len);
                assert_eq!(moved, u32::from(d.off) + u32::from(d.len) <= stride);
                assert_eq!(last.bytes().len(), stride as usize);
                last.bytes().fill(d.tag);
            }
            _ => {
                if let Some(last) = kept.pop() {
                    gone.remove(&slots.give_back(last).buf.index());
                }
            }
        }
    }
}

/// A queue whose indexes anybody changes at any time: each end sees at most what the queue holds.
fn queue(records: &[Record]) {
    let ring = Ring::create(CAPACITY).unwrap();
    let memory = File::from(ring.mapping().dup_fd().unwrap());
    let scribble = |at: u64, word: u32| memory.write_all_at(&word.to_le_bytes(), at).unwrap();
    let (mut producer, mut consumer) = (Producer::attach(ring.clone()), Consumer::attach(ring.clone()));
    for r in records {
        let d = Desc::from_words(r.words.0, r.words.1);
        let (x, n) = (r.words.1 as u32, (r.words.0 % 64) as u32);
        match r.what % 8 {
            0 => scribble(TAIL_AT, x),
            1 => scribble(HEAD_AT, x),
            2 => scribble(HEAD_AT + 128 + u64::from(n) * 4, x),
            3 => producer = Producer::attach(ring.clone()),
            4 => consumer = Consumer::attach(ring.clone()),
            5 => {
                for _ in 0..n.min(producer.room(n)) {
                    producer.push(d);
                }
                producer.publish();
            }
            _ => {
                let there = n.min(consumer.available(n));
                for i in 0..there {
                    let _ = consumer.peek(i);
                }
                consumer.release(there);
            }
        }
        assert!(producer.room(x) <= CAPACITY && producer.len_at_most() <= CAPACITY);
        assert!(consumer.available(x) <= CAPACITY && ring.len() <= CAPACITY);
    }
}
