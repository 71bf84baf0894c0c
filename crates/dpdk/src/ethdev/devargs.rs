//! Device strings: which driver, and what it needs to be told besides.

use super::{EthConfig, EthError};
use crate::pool::HEADROOM;

/// Buffers of a port that has its own: `net_af_xdp` fills a ring of 2048 and sends from as many.
pub(super) const OWN_BUFFERS: u32 = 8192;
/// Bytes of each, headroom included: the frames that `net_af_xdp` takes fit a 4 KiB page with what the kernel puts before
/// them.
pub(super) const OWN_ROOM: u16 = 3584;

/// What the kernel puts before a frame in a `PACKET_MMAP` ring: the header, the address, alignment to 16, less the
/// Ethernet header (Linux, `Documentation/networking/packet_mmap.rst`).
const PACKET_HEADER: usize = 66;
/// What `net_af_packet` takes off a ring's frame size before it compares with the buffers.
const PACKET_RESERVED: usize = 32;
const PACKET_ALIGN: usize = 16;
/// Blocks of a `PACKET_MMAP` ring are whole pages.
const PAGE: usize = 4096;

/// A device string, completed.
pub(super) struct Devargs {
    text: String,
    name_len: usize,
}

impl Devargs {
    /// Checks a device string and adds what follows from the frame length.
    pub(super) fn parse(devargs: &str, stride: usize, config: &EthConfig) -> Result<Self, EthError> {
        let wrong = |why: &str| EthError::Devargs { devargs: devargs.to_owned(), why: why.to_owned() };
        let name = devargs.split(',').next().unwrap_or_default();
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b)) {
            return Err(wrong("expected a name of letters, digits and _-.: before the first comma"));
        }
        if name.len() > 63 {
            return Err(wrong("expected a name of at most 63 bytes"));
        }
        let mut this = Self { text: devargs.to_owned(), name_len: name.len() };
        if this.sizes_its_ring() {
            this.size_packet_ring(stride, config);
        }
        Ok(this)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn name(&self) -> &str {
        &self.text[..self.name_len]
    }

    /// `0000:3b:00.0` or `3b:00.0`.
    pub(super) fn is_pci(&self) -> bool {
        let parts: Vec<&str> = self.name().split([':', '.']).collect();
        let hex = |part: &&str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
        self.name().contains(':') && matches!(parts.len(), 3 | 4) && parts.iter().all(hex)
    }

    /// `net_af_xdp` registers its mempool's own memory with the kernel and refuses any other.
    pub(super) fn needs_own_buffers(&self) -> bool {
        self.name().starts_with("net_af_xdp")
    }

    /// `net_af_packet` calls 1500 its largest MTU, though the ring decides, and would set the interface's own.
    pub(super) fn sizes_its_ring(&self) -> bool {
        self.name().starts_with("net_af_packet")
    }

    fn has(&self, key: &str) -> bool {
        self.text.split(',').skip(1).any(|arg| arg.split('=').next() == Some(key))
    }

    /// The kernel cuts a frame that is longer than the ring's frames without a word, and the driver refuses a ring whose
    /// frames may not fit a buffer: so the largest that fits is what is asked for.
    fn size_packet_ring(&mut self, stride: usize, config: &EthConfig) {
        if ["framesz", "blocksz", "framecnt"].iter().any(|key| self.has(key)) {
            return;
        }
        let largest = stride.saturating_sub(usize::from(HEADROOM)) + PACKET_RESERVED;
        // Room for a VLAN tag besides.
        let wanted = (usize::from(config.max_frame) + 4 + PACKET_HEADER).next_multiple_of(PACKET_ALIGN);
        let frame = wanted.min(largest / PACKET_ALIGN * PACKET_ALIGN).max(PACKET_ALIGN);
        // The driver takes the ring for one array, so that blocks must be whole frames as well as whole pages.
        let per_block = PAGE / gcd(frame, PAGE);
        let frames = usize::from(config.rx_descs.max(config.tx_descs)).next_multiple_of(per_block);
        self.text += &format!(",framesz={frame},blocksz={},framecnt={frames}", frame * per_block);
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Devargs, EthError> {
        Devargs::parse(text, 2112, &EthConfig::default())
    }

    #[test]
    fn tells_pci_from_virtual_devices() {
        for (text, pci) in
            [("0000:3b:00.0", true), ("3b:00.1,rx=1", true), ("net_null0", false), ("net_tap0,iface=a:b.c", false)]
        {
            assert_eq!(parse(text).unwrap().is_pci(), pci, "{text}");
        }
        assert!(parse("").is_err() && parse(",iface=x").is_err() && parse("net null").is_err());
    }

    #[test]
    fn packet_rings_are_whole_frames_and_pages() {
        for (stride, max_frame) in [(2112, 1514), (2048, 1514), (9280, 9014), (1728, 1514), (192, 64)] {
            let config = EthConfig { max_frame, ..EthConfig::default() };
            let args = Devargs::parse("net_af_packet0,iface=x", stride, &config).unwrap();
            let number = |key: &str| -> usize {
                let found = args.as_str().split(',').find_map(|a| a.strip_prefix(key)?.strip_prefix('='));
                found.unwrap().parse().unwrap()
            };
            let (frame, block, count) = (number("framesz"), number("blocksz"), number("framecnt"));
            assert!(frame % 16 == 0 && block % frame == 0 && block % 4096 == 0 && count % (block / frame) == 0);
            assert!(frame - PACKET_RESERVED <= stride - 128, "the driver would refuse {frame} for {stride}");
        }
        assert_eq!(
            parse("net_af_packet0,iface=x,framesz=2048").unwrap().as_str(),
            "net_af_packet0,iface=x,framesz=2048"
        );
    }
}
