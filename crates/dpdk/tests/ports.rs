//! Ports over a shared region, on real devices. Those that need root say so and pass without.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use chainline_dpdk::{EthConfig, EthDev, EthError, Frame, FreeList, Pool};
use common::{Buffers, ETHERTYPE, exclusive, frame, ip, own_network, veth};
use std::path::PathBuf;
use std::rc::Rc;

const STRIDE: usize = 2112;
const COUNT: u32 = 8192;
/// 9018 bytes with FCS.
const JUMBO: EthConfig = EthConfig { max_frame: 9014, rx_descs: 1024, tx_descs: 1024, promiscuous: true };

fn attach(args: &str, buffers: &Buffers) -> EthDev {
    EthDev::attach(args, &buffers.pool, &EthConfig::default()).unwrap()
}

fn assert_all_free(buffers: &Buffers) {
    assert_eq!(buffers.pool.free().len(), buffers.pool.free().capacity(), "buffers leaked");
}

struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("chainline-dpdk-{}-{name}", std::process::id())))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A capture file (draft-ietf-opsawg-pcap): header, then records.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for frame in frames {
        for word in [1, 2, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

fn read_pcap(file: &[u8]) -> Vec<Vec<u8>> {
    let (mut frames, mut rest) = (Vec::new(), &file[24..]);
    while rest.len() >= 16 {
        let len = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        frames.push(rest[16..16 + len].to_vec());
        rest = &rest[16 + len..];
    }
    frames
}

#[test]
fn null_receives_into_the_region_and_sends_from_it() {
    let _one = exclusive();
    let buffers = Buffers::new(STRIDE, 256);
    let mut dev = attach("net_null0,size=60", &buffers);
    let mut frames = [Frame::default(); 64];
    for _ in 0..1000 {
        assert_eq!(dev.rx(&mut frames), 64);
        assert!(frames.iter().all(|f| f.off == 128 && f.len == 60 && f.index < 256), "{frames:?}");
        assert_eq!(buffers.pool.free().len(), 256 - 64);
        assert_eq!(dev.tx(&frames), 64);
    }
    // Nothing is free: nothing is received, and nothing breaks.
    let mut all = [0; 256];
    assert!(buffers.pool.free().pop_bulk(&mut all));
    assert_eq!(dev.rx(&mut frames), 0);
    buffers.pool.free().push_bulk(&all);
    let stats = dev.stats();
    assert_eq!((stats.rx_packets, stats.tx_packets), (64_000, 64_000));
    drop(dev);
    assert_all_free(&buffers);
}

#[test]
fn a_shared_region_stays_as_long_as_its_ports() {
    let _one = exclusive();
    let region = chainline_shm::Region::create(128, 1514).unwrap();
    let free = Rc::new(FreeList::new(region.count()));
    let pool = Pool::over(&region, Rc::clone(&free)).unwrap();
    let mut dev = EthDev::attach("net_null2,size=1514,copy=1", &pool, &EthConfig::default()).unwrap();
    drop((region, pool));
    let mut frames = [Frame::default(); 64];
    for _ in 0..100 {
        assert_eq!(dev.rx(&mut frames), 64);
        assert_eq!(dev.tx(&frames), 64);
    }
    drop(dev);
    assert_eq!(free.len(), free.capacity());
}

#[test]
fn pcap_reads_writes_and_counts_what_does_not_fit() {
    let _one = exclusive();
    let (input, output) = (TempFile::new("in.pcap"), TempFile::new("out.pcap"));
    let lens = [60, 1514, 61, 1984, 1985, 9014, 14, 64];
    let frames: Vec<Vec<u8>> = lens.iter().enumerate().map(|(n, len)| frame(n, *len)).collect();
    std::fs::write(&input.0, pcap(&frames)).unwrap();

    let buffers = Buffers::new(STRIDE, 256);
    let args = format!("net_pcap0,rx_pcap={},tx_pcap={}", input.0.display(), output.0.display());
    let mut dev = attach(&args, &buffers);
    let fit: Vec<Vec<u8>> = frames.iter().filter(|f| f.len() <= STRIDE - 128).cloned().collect();
    let got = buffers.receive(&mut dev, fit.len());
    assert_eq!(got, fit);
    assert_eq!(dev.rx(&mut [Frame::default(); 8]), 0);
    assert_eq!(dev.stats().rx_oversize, (frames.len() - fit.len()) as u64);
    buffers.send(&mut dev, &fit);
    assert_eq!(dev.stats().tx_packets, fit.len() as u64);
    drop(dev);
    assert_eq!(read_pcap(&std::fs::read(&output.0).unwrap()), fit);
    assert_all_free(&buffers);
}

#[test]
fn jumbo_frames_take_one_large_buffer() {
    let _one = exclusive();
    let input = TempFile::new("jumbo.pcap");
    let frames = vec![frame(1, 9014), frame(2, 60)];
    std::fs::write(&input.0, pcap(&frames)).unwrap();
    let buffers = Buffers::new(9280, 64);
    let mut dev = EthDev::attach(&format!("net_pcap1,rx_pcap={}", input.0.display()), &buffers.pool, &JUMBO).unwrap();
    assert_eq!(buffers.receive(&mut dev, 2), frames);
    drop(dev);
    assert_all_free(&buffers);
}

/// Both ways between two ports, in all sizes, twice around the pool.
fn exchange(buffers: &Buffers, one: &mut EthDev, other: &mut EthDev, lens: &[usize]) {
    for round in 0..40 {
        let frames: Vec<Vec<u8>> = (0..100).map(|n| frame(n + round, lens[n % lens.len()])).collect();
        buffers.send(one, &frames);
        assert_eq!(buffers.receive(other, frames.len()), frames);
        buffers.send(other, &frames);
        assert_eq!(buffers.receive(one, frames.len()), frames);
    }
}

#[test]
fn af_packet_on_veth() {
    let _one = exclusive();
    if !own_network() {
        return;
    }
    veth(1500);
    let buffers = Buffers::new(STRIDE, COUNT);
    let mut a = attach("net_af_packet0,iface=va", &buffers);
    let mut b = attach("net_af_packet1,iface=vb", &buffers);
    assert!(a.link_up() && a.mac() != [0; 6] && a.mtu() == 1500 && !a.copies());
    exchange(&buffers, &mut a, &mut b, &[60, 64, 590, 1514]);

    // The kernel takes VLAN tags off; they must be there again.
    let mut tagged = frame(7, 1514);
    tagged.splice(12..12, [0x81, 0x00, 0x60, 0x05]);
    let mut short = frame(8, 60);
    short.splice(12..12, [0x81, 0x00, 0xef, 0xff]);
    let tagged = vec![tagged, short];
    buffers.send(&mut a, &tagged);
    assert_eq!(buffers.receive(&mut b, 2), tagged);
    assert_eq!(tagged[0][16..18], ETHERTYPE);
    drop((a, b));
    assert_all_free(&buffers);
}

#[test]
fn af_packet_carries_jumbo_frames() {
    let _one = exclusive();
    if !own_network() {
        return;
    }
    veth(9000);
    let buffers = Buffers::new(9280, 2048);
    let mut a = EthDev::attach("net_af_packet2,iface=va", &buffers.pool, &JUMBO).unwrap();
    let mut b = EthDev::attach("net_af_packet3,iface=vb", &buffers.pool, &JUMBO).unwrap();
    assert_eq!((a.mtu(), b.mtu()), (9000, 9000));
    exchange(&buffers, &mut a, &mut b, &[60, 9014, 4096, 9000]);
    drop((a, b));
    assert_all_free(&buffers);
}

/// The first and the last fragment of an IPv4 datagram of 4008 bytes (RFC 791), from 10.0.0.1 to 10.0.0.2.
fn fragments() -> Vec<Vec<u8>> {
    let fragment = |at: u16, len: u16, more: bool| {
        let mut ip = vec![0x45, 0, 0, 0, 0x12, 0x34, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        ip[2..4].copy_from_slice(&(20 + len).to_be_bytes());
        ip[6..8].copy_from_slice(&((u16::from(more) << 13) | (at / 8)).to_be_bytes());
        let sum: u32 = ip.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        ip[10..12].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
        ip.resize(20 + usize::from(len), at as u8);
        [&frame(0, 12)[..12], &[8, 0], &ip[..]].concat()
    };
    vec![fragment(0, 1480, true), fragment(1480, 1480, true), fragment(2960, 1048, false)]
}

#[test]
fn af_packet_leaves_fragments_apart() {
    let _one = exclusive();
    if !own_network() {
        return;
    }
    veth(1500);
    let buffers = Buffers::new(STRIDE, COUNT);
    let mut a = attach("net_af_packet6,iface=va", &buffers);
    let mut b = attach("net_af_packet7,iface=vb", &buffers);
    // The last frame tells that the fragments before it have come, or will not.
    let sent: Vec<Vec<u8>> = fragments().into_iter().chain([frame(1, 60)]).collect();
    buffers.send(&mut a, &sent);
    let (mut got, mut frames) = (Vec::new(), [Frame::default(); 32]);
    while got.last() != sent.last() {
        let n = b.rx(&mut frames);
        got.extend(frames[..n].iter().map(|f| buffers.read(*f)).filter(|f| f[..12] == sent[0][..12]));
        buffers.release(&frames[..n]);
        std::thread::yield_now();
    }
    assert!(got == sent, "{:?}", got.iter().map(Vec::len).collect::<Vec<_>>());
    drop((a, b));
    assert_all_free(&buffers);
}

/// Frames that wait in the kernel for their turn on a slow link fill the socket's send buffer; what is behind them in the ring
/// goes out all the same, though nobody sends anything after it.
#[test]
fn af_packet_sends_all_of_its_ring_on_a_slow_link() {
    let _one = exclusive();
    if !own_network() {
        return;
    }
    veth(1500);
    let limit = "qdisc replace dev va root tbf rate 100mbit burst 10kb latency 400ms";
    if !std::process::Command::new("tc").args(limit.split(' ')).status().is_ok_and(|s| s.success()) {
        println!("skipped: af_packet_sends_all_of_its_ring_on_a_slow_link: tc or its token bucket is not there");
        return;
    }
    let buffers = Buffers::new(STRIDE, 4096);
    let mut a = attach("net_af_packet8,iface=va,qdisc_bypass=0", &buffers);
    let mut b = attach("net_af_packet9,iface=vb", &buffers);
    let sent: Vec<Vec<u8>> = (0..600).map(|i| frame(i, 1514)).collect();
    for burst in sent.chunks(32) {
        buffers.send(&mut a, burst);
    }
    let (mut got, mut frames) = (0, [Frame::default(); 32]);
    let began = std::time::Instant::now();
    while got < sent.len() && began.elapsed().as_secs() < 10 {
        let n = b.rx(&mut frames);
        got += frames[..n].iter().filter(|f| buffers.read(**f).len() == 1514).count();
        buffers.release(&frames[..n]);
        a.flush();
        std::thread::yield_now();
    }
    assert_eq!(got, sent.len());
    drop((a, b));
    assert_all_free(&buffers);
}

#[test]
fn af_xdp_on_veth() {
    let _one = exclusive();
    if !own_network() {
        return;
    }
    veth(1500);
    let buffers = Buffers::new(STRIDE, COUNT);
    let mut a = attach("net_af_xdp0,iface=va", &buffers);
    let mut b = attach("net_af_packet4,iface=vb", &buffers);
    assert!(a.copies());
    exchange(&buffers, &mut a, &mut b, &[60, 64, 590, 1514]);
    assert!(ip("-d link show va").contains("xdp"));
    drop((a, b));
    assert!(!ip("-d link show va").contains("xdp"), "the XDP program stays");
    assert_all_free(&buffers);
}

#[test]
fn af_xdp_drops_and_counts_what_its_buffers_cannot_hold() {
    let _one = exclusive();
    if !own_network() {
        return;
    }
    veth(1500);
    let buffers = Buffers::new(9280, COUNT);
    let mut a = attach("net_af_xdp1,iface=va", &buffers);
    buffers.send(&mut a, &[frame(1, 60), frame(2, 9014), frame(3, 60), frame(4, 9014)]);
    assert_eq!(a.stats().tx_oversize, 2);
    drop(a);
    assert_all_free(&buffers);
}

#[test]
fn tap_and_af_packet_on_it() {
    let _one = exclusive();
    if !own_network() {
        return;
    }
    let buffers = Buffers::new(STRIDE, COUNT);
    let mut tap = attach("net_tap0,iface=vt", &buffers);
    ip("link set vt up");
    let mut kernel = attach("net_af_packet5,iface=vt", &buffers);
    exchange(&buffers, &mut tap, &mut kernel, &[60, 64, 590, 1514]);
    drop((tap, kernel));
    assert_all_free(&buffers);
}

#[test]
fn memif_between_two_processes() {
    let _one = exclusive();
    let socket = TempFile::new("memif.sock");
    let buffers = Buffers::new(STRIDE, COUNT);
    let args = format!("net_memif0,role=server,socket-abstract=no,socket={}", socket.0.display());
    let mut dev = attach(&args, &buffers);
    let mut peer = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "memif_peer", "--nocapture"])
        .env("CHAINLINE_TEST_MEMIF", &socket.0)
        .spawn()
        .unwrap();
    while !dev.link_up() {
        assert_eq!(peer.try_wait().unwrap(), None, "the peer ended");
        std::thread::yield_now();
    }
    for round in 0..20 {
        let frames: Vec<Vec<u8>> = (0..100).map(|n| frame(n + round, 60 + n * 14)).collect();
        buffers.send(&mut dev, &frames);
        assert_eq!(buffers.receive(&mut dev, frames.len()), frames);
    }
    // It dies without a word.
    peer.kill().unwrap();
    peer.wait().unwrap();
    let mut frames = [Frame::default(); 32];
    while dev.link_up() {
        let n = dev.rx(&mut frames);
        buffers.release(&frames[..n]);
        std::thread::yield_now();
    }
    drop(dev);
    assert_all_free(&buffers);
}

/// The other process of the test above: sends back what it receives until it is killed.
#[test]
fn memif_peer() {
    let Some(socket) = std::env::var_os("CHAINLINE_TEST_MEMIF") else { return };
    let buffers = Buffers::new(STRIDE, COUNT);
    let args = format!("net_memif0,role=client,socket-abstract=no,socket={}", socket.display());
    let mut dev = attach(&args, &buffers);
    let mut frames = [Frame::default(); 32];
    loop {
        let n = dev.rx(&mut frames);
        let mut sent = 0;
        while sent < n {
            sent += dev.tx(&frames[sent..n]);
        }
        std::thread::yield_now();
    }
}

#[test]
fn refusals_explain_themselves_and_leave_nothing() {
    let _one = exclusive();
    let buffers = Buffers::new(STRIDE, 64);
    let refuse = |args: &str, config: &EthConfig| EthDev::attach(args, &buffers.pool, config).unwrap_err();
    let usual = EthConfig::default();
    let error = refuse("net_pcap2,rx_pcap=/nonexistent/file.pcap", &usual);
    assert!(error.to_string().contains("net_pcap2"), "{error}");
    let error = refuse("net_nonsense0", &usual);
    assert!(matches!(error, EthError::Step { .. }), "{error}");
    let error = refuse("net_null1", &JUMBO);
    assert!(matches!(error, EthError::FrameTooLong { most: 1984, .. }), "{error}");
    let error = refuse("0000:ff:00.0", &usual);
    assert!(matches!(error, EthError::Eal(_)), "{error}");
    // A name can be used again after a failure and after a drop.
    for _ in 0..3 {
        drop(attach("net_null1", &buffers));
    }
    assert_all_free(&buffers);
}
