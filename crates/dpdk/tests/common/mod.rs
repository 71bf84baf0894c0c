//! A region, a pool over it, and a network namespace, for the port tests.

#![allow(dead_code, reason = "each test binary uses its part")]

use chainline_dpdk::{EthDev, Frame, FreeList, Pool};
use std::process::Command;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Local experimental EtherType (IEEE 802): tells our frames from the kernel's own.
pub const ETHERTYPE: [u8; 2] = [0x88, 0xb5];

/// Ports are attached by one test at a time.
pub fn exclusive() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Buffers in a memfd, as in the product.
pub struct Buffers {
    pub pool: Pool,
    base: NonNull<u8>,
    stride: usize,
    count: u32,
}

impl Buffers {
    pub fn new(stride: usize, count: u32) -> Self {
        let len = (stride * count as usize).next_multiple_of(4096);
        let base = map_memfd(len);
        let free = Rc::new(FreeList::new(count));
        // SAFETY: the memory is mapped and stays so until the process ends.
        let pool = unsafe { Pool::new(base, len, stride, count, free) }.unwrap();
        Self { pool, base, stride, count }
    }

    fn bytes(&self, frame: Frame) -> *mut u8 {
        assert!(frame.index < self.count && usize::from(frame.off) + usize::from(frame.len) <= self.stride);
        // SAFETY: inside the region.
        unsafe { self.base.as_ptr().add(frame.index as usize * self.stride + usize::from(frame.off)) }
    }

    pub fn read(&self, frame: Frame) -> Vec<u8> {
        // SAFETY: inside the region, which lives as long as the process.
        unsafe { std::slice::from_raw_parts(self.bytes(frame), usize::from(frame.len)) }.to_vec()
    }

    /// Puts a frame into a free buffer.
    pub fn write(&self, data: &[u8]) -> Frame {
        let mut index = [0];
        assert!(self.pool.free().pop_bulk(&mut index), "no free buffer");
        let frame = Frame { index: index[0], off: 128, len: data.len() as u16 };
        // SAFETY: inside the region, and the buffer is ours.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.bytes(frame), data.len()) };
        frame
    }

    pub fn release(&self, frames: &[Frame]) {
        for frame in frames {
            self.pool.free().push_bulk(&[frame.index]);
        }
    }

    /// Sends all of them, in as many tries as it takes.
    pub fn send(&self, dev: &mut EthDev, data: &[Vec<u8>]) {
        let frames: Vec<Frame> = data.iter().map(|d| self.write(d)).collect();
        let mut sent = 0;
        for _ in 0..TRIES {
            sent += dev.tx(&frames[sent..]);
            if sent == frames.len() {
                return;
            }
        }
        panic!("{sent} of {} frames sent", frames.len());
    }

    /// Receives until `count` of our own frames are there.
    pub fn receive(&self, dev: &mut EthDev, count: usize) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        let mut frames = [Frame::default(); 32];
        for _ in 0..TRIES {
            let n = dev.rx(&mut frames);
            got.extend(frames[..n].iter().map(|f| self.read(*f)).filter(|d| is_ours(d)));
            self.release(&frames[..n]);
            if got.len() >= count {
                return got;
            }
            if n == 0 {
                std::thread::yield_now();
            }
        }
        panic!("{} of {count} frames received, {:?}", got.len(), dev.stats());
    }
}

/// So many that only a frame that never comes uses them up.
const TRIES: usize = 3_000_000;

fn is_ours(data: &[u8]) -> bool {
    data.get(12..14) == Some(&ETHERTYPE) || data.get(16..18) == Some(&ETHERTYPE)
}

/// A frame of our own: `len` bytes with a pattern that depends on `n`.
pub fn frame(n: usize, len: usize) -> Vec<u8> {
    let mut data = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    data.extend(ETHERTYPE);
    data.extend((14..len).map(|i| (i * 7 + n) as u8));
    data
}

pub fn map_memfd(len: usize) -> NonNull<u8> {
    // SAFETY: a fresh mapping of a fresh file.
    unsafe {
        let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC);
        assert!(fd >= 0 && libc::ftruncate(fd, len as libc::off_t) == 0);
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let base = libc::mmap(std::ptr::null_mut(), len, prot, flags, fd, 0);
        assert!(base != libc::MAP_FAILED);
        libc::close(fd);
        NonNull::new(base.cast()).unwrap()
    }
}

/// Moves this thread into a network namespace of its own, which goes with it. `false`, with a word, where it may not.
pub fn own_network() -> bool {
    // SAFETY: changes this thread alone.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        println!("skipped: network namespaces need root");
        return false;
    }
    true
}

/// Runs `ip` here and returns what it prints.
pub fn ip(args: &str) -> String {
    let output = Command::new("ip").args(args.split(' ')).output().expect("iproute2 is installed");
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A veth pair `va`, `vb`, up.
pub fn veth(mtu: u16) {
    ip(&format!("link add va mtu {mtu} type veth peer name vb mtu {mtu}"));
    ip("link set va up");
    ip("link set vb up");
}
