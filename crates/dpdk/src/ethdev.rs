//! Ports on DPDK's drivers, attached and detached while running.
//!
//! A port receives into the buffers of a [`Pool`] and sends from them; what crosses the interface here are [`Frame`]s:
//! buffer indexes, never mbufs. Frames that a driver delivers in another form (several segments, or buffers of its own)
//! are copied into one of the pool's, or dropped and counted under a name.
//!
//! For the manager's thread only, as the pool is. Deliberately absent: offloads and several queues.

mod devargs;
mod packet_socket;
mod transfer;

use crate::pool::{HEADROOM, Mempool, Pool, PoolError};
use crate::{FreeList, eal, log, version};
use chainline_dpdk_sys as sys;
use std::ffi::{CString, c_int, c_uint};
use std::rc::Rc;

/// Bytes of an Ethernet header, which an MTU does not count.
const ETHER_HEADER: u16 = sys::RTE_ETHER_HDR_LEN as u16;
const USUAL_MTU: u16 = 1500;
/// `RTE_ETHER_MIN_MTU`, from RFC 791.
const LEAST_MTU: u16 = 68;

/// How a port is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EthConfig {
    /// The longest frame in bytes, without FCS: 1514 for the usual MTU, 9014 for 9018-byte jumbo frames. The MTU of an
    /// interface below `net_af_packet` is left to its owner.
    pub max_frame: u16,
    /// Receive descriptors; the driver may round.
    pub rx_descs: u16,
    /// Transmit descriptors; the driver may round.
    pub tx_descs: u16,
    /// Receive frames for any destination, where the driver can choose.
    pub promiscuous: bool,
}

impl Default for EthConfig {
    fn default() -> Self {
        Self { max_frame: USUAL_MTU + ETHER_HEADER, rx_descs: 1024, tx_descs: 1024, promiscuous: true }
    }
}

/// A frame in a buffer of the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame {
    /// The buffer.
    pub index: u32,
    /// Bytes from the start of the buffer to the frame.
    pub off: u16,
    /// Bytes of the frame, without FCS.
    pub len: u16,
}

/// What a port has counted since it was attached. Counters of the driver come as far as it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EthStats {
    /// Frames that the driver received.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Frames that the driver sent.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Frames lost by the device because its receive queue was full.
    pub rx_missed: u64,
    /// Wrong frames that the device received.
    pub rx_errors: u64,
    /// Frames that the driver had no buffer for. Some drivers count tries, not frames.
    pub rx_nombuf: u64,
    /// Frames that the driver accepted and could not send.
    pub tx_errors: u64,
    /// Frames dropped here because they fit no buffer.
    pub rx_oversize: u64,
    /// Frames dropped here because no buffer was free to copy them to.
    pub rx_no_buffer: u64,
    /// Frames that were accepted and dropped here because they fit no buffer of the driver's own.
    pub tx_oversize: u64,
}

/// Why a port could not be attached.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EthError {
    /// EAL did not start.
    #[error(transparent)]
    Eal(#[from] eal::EalError),
    /// The device string is wrong.
    #[error("device '{devargs}': {why}")]
    Devargs {
        /// What was found.
        devargs: String,
        /// What was expected.
        why: String,
    },
    /// Frames of this length cannot be had.
    #[error("device '{device}': frames of {max_frame} bytes, expected at most {most} ({whose} limit)")]
    FrameTooLong {
        /// The device.
        device: String,
        /// What was asked for.
        max_frame: u16,
        /// What is possible.
        most: u32,
        /// `the driver's` or `the buffers'`.
        whose: &'static str,
    },
    /// DPDK refused a step.
    #[error("device '{device}': cannot {step}: {why}")]
    Step {
        /// The device.
        device: String,
        /// The step.
        step: &'static str,
        /// DPDK's word.
        why: String,
    },
    /// The port's own buffers could not be made.
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// A port. Dropping it stops, closes and detaches the device.
#[derive(Debug)]
pub struct EthDev {
    port: u16,
    name: String,
    pool: Pool,
    /// Buffers of the driver's own, where it cannot use the pool's; frames are copied.
    own: Option<Mempool>,
    device: *mut sys::rte_device,
    /// Whether the device may read and write the region by itself.
    dma: bool,
    /// The MTU, where the driver's word for it means nothing.
    ring_mtu: Option<u16>,
    rx_oversize: u64,
    rx_no_buffer: u64,
    tx_oversize: u64,
    /// Sockets whose rings the driver may leave frames in.
    rings: Vec<c_int>,
    /// Something was sent since the last [`EthDev::flush`].
    sent: bool,
    /// Frames may be left in a ring.
    unsettled: bool,
}

impl EthDev {
    /// Attaches a device: `net_af_packet0,iface=eth1`, `net_pcap0,rx_pcap=in.pcap`, or a PCI address. EAL is
    /// started if it does not run.
    ///
    /// # Errors
    /// [`EthError`]; nothing stays attached.
    pub fn attach(devargs: &str, pool: &Pool, config: &EthConfig) -> Result<Self, EthError> {
        let args = devargs::Devargs::parse(devargs, pool.stride(), config)?;
        let most = pool.stride() - usize::from(HEADROOM);
        if usize::from(config.max_frame) > most {
            let (device, max_frame) = (args.name().to_owned(), config.max_frame);
            return Err(EthError::FrameTooLong { device, max_frame, most: most as u32, whose: "the buffers'" });
        }
        let pci = if args.is_pci() { vec![args.name().to_owned()] } else { Vec::new() };
        eal::init(&eal::EalConfig { pci, ..eal::EalConfig::default() })?;

        // What was said before is not about this device.
        log::take();
        log::drivers_speak(true);
        let attached = Self::probe(&args, pool, config);
        log::drivers_speak(false);
        attached
    }

    fn probe(args: &devargs::Devargs, pool: &Pool, config: &EthConfig) -> Result<Self, EthError> {
        let name = args.name().to_owned();
        let step = |step, errno: c_int| EthError::Step {
            device: name.clone(),
            step,
            why: log::explain(version::strerror(errno)),
        };
        let c_args = c_string(args.as_str())?;
        let c_name = c_string(&name)?;
        let mut port = 0;
        packet_socket::take();
        // SAFETY: both are NUL-terminated strings, and port is a local.
        let probed = unsafe { sys::rte_dev_probe(c_args.as_ptr()) };
        // A device that EAL found at its start is probed already.
        if probed < 0 && probed != -libc::EEXIST {
            return Err(step("attach it", probed));
        }
        // SAFETY: as above.
        let found = unsafe { sys::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &mut port) };
        if found < 0 {
            return Err(step("find its port", found));
        }
        let info = version::dev_info(port).map_err(|errno| step("read its properties", errno))?;
        // From here on, dropping it detaches the device.
        let mut dev = Self {
            port,
            name: name.clone(),
            pool: pool.clone(),
            own: None,
            device: info.device,
            dma: false,
            ring_mtu: args.sizes_its_ring().then_some(mtu(config)),
            rx_oversize: 0,
            rx_no_buffer: 0,
            tx_oversize: 0,
            rings: packet_socket::take(),
            sent: false,
            unsettled: false,
        };
        if args.needs_own_buffers() {
            let free = Rc::new(FreeList::new(devargs::OWN_BUFFERS));
            dev.own = Some(Mempool::new(devargs::OWN_BUFFERS, devargs::OWN_ROOM, false, free)?);
        }
        if args.is_pci() {
            dev.map_region();
        }
        dev.start(config, u32::from(info.max_mtu)).map(|()| dev)
    }

    fn start(&mut self, config: &EthConfig, max_mtu: u32) -> Result<(), EthError> {
        let mtu = mtu(config);
        if u32::from(mtu) > max_mtu {
            return Err(EthError::FrameTooLong {
                device: self.name.clone(),
                max_frame: config.max_frame,
                most: max_mtu + u32::from(ETHER_HEADER),
                whose: "the driver's",
            });
        }
        let (mut rx_descs, mut tx_descs) = (config.rx_descs.max(1), config.tx_descs.max(1));
        let mempool = self.own.as_ref().unwrap_or(self.pool.mempool()).as_ptr();
        // SAFETY: the port is attached and not configured; zeros ask for no offload and the default MTU; the mempool
        // lives as long as this value, which closes the port before it goes.
        unsafe {
            let conf: sys::rte_eth_conf = std::mem::zeroed();
            self.check("configure it", sys::rte_eth_dev_configure(self.port, 1, 1, &conf))?;
            let fitted = sys::rte_eth_dev_adjust_nb_rx_tx_desc(self.port, &mut rx_descs, &mut tx_descs);
            self.check("fit its queues", fitted)?;
            if mtu > USUAL_MTU && self.ring_mtu.is_none() {
                // Drivers without a notion of MTU take any frame that fits a buffer.
                match sys::rte_eth_dev_set_mtu(self.port, mtu) {
                    0 => {}
                    errno if errno == -libc::ENOTSUP => {}
                    errno => return Err(self.refused("set its MTU", errno)),
                }
            }
            let socket = -1i32 as c_uint;
            let rx = sys::rte_eth_rx_queue_setup(self.port, 0, rx_descs, socket, std::ptr::null(), mempool);
            self.check("set up its receive queue", rx)?;
            let tx = sys::rte_eth_tx_queue_setup(self.port, 0, tx_descs, socket, std::ptr::null());
            self.check("set up its transmit queue", tx)?;
            self.check("start it", sys::rte_eth_dev_start(self.port))?;
            if config.promiscuous {
                match sys::rte_eth_promiscuous_enable(self.port) {
                    0 => {}
                    errno if errno == -libc::ENOTSUP => {}
                    errno => return Err(self.refused("make it promiscuous", errno)),
                }
            }
        }
        Ok(())
    }

    /// Lets a real device read and write the region (programmer's guide, "Support for Externally Allocated Memory").
    fn map_region(&mut self) {
        let (base, len) = self.pool.region();
        // Drivers that map memory their own way say ENOTSUP; one that then cannot reach it fails when it starts.
        // SAFETY: the region is registered, and stays so while this value holds the pool.
        self.dma = unsafe { sys::rte_dev_dma_map(self.device, base.as_ptr().cast(), base.as_ptr() as u64, len) } == 0;
    }

    fn check(&self, step: &'static str, result: c_int) -> Result<(), EthError> {
        if result < 0 { Err(self.refused(step, result)) } else { Ok(()) }
    }

    fn refused(&self, step: &'static str, errno: c_int) -> EthError {
        EthError::Step { device: self.name.clone(), step, why: log::explain(version::strerror(errno)) }
    }

    /// The device's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether frames are copied because the driver cannot use the pool's buffers.
    #[must_use]
    pub fn copies(&self) -> bool {
        self.own.is_some()
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> EthStats {
        // SAFETY: integers only, for which zeros are valid.
        let mut stats: sys::rte_eth_stats = unsafe { std::mem::zeroed() };
        // SAFETY: the port is attached; the call writes the local, or fails and leaves zeros.
        unsafe { sys::rte_eth_stats_get(self.port, &mut stats) };
        EthStats {
            rx_packets: stats.ipackets,
            rx_bytes: stats.ibytes,
            tx_packets: stats.opackets,
            tx_bytes: stats.obytes,
            rx_missed: stats.imissed,
            rx_errors: stats.ierrors,
            rx_nombuf: stats.rx_nombuf,
            tx_errors: stats.oerrors,
            rx_oversize: self.rx_oversize,
            rx_no_buffer: self.rx_no_buffer,
            tx_oversize: self.tx_oversize,
        }
    }

    /// The port's MAC address; zeros when it has none.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        let mut mac = sys::rte_ether_addr { addr_bytes: [0; 6] };
        // SAFETY: the port is attached; the call writes the local.
        unsafe { sys::rte_eth_macaddr_get(self.port, &mut mac) };
        mac.addr_bytes
    }

    /// The MTU in bytes: what the driver is set to, not the kernel's for an interface below it.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        if let Some(mtu) = self.ring_mtu {
            return mtu;
        }
        let mut mtu = 0;
        // SAFETY: the port is attached; the call writes the local.
        unsafe { sys::rte_eth_dev_get_mtu(self.port, &mut mtu) };
        mtu
    }

    /// Whether the link is up.
    #[must_use]
    pub fn link_up(&self) -> bool {
        // SAFETY: the port is attached.
        unsafe { sys::chainline_link_up(self.port) == 1 }
    }
}

impl Drop for EthDev {
    fn drop(&mut self) {
        // SAFETY: the port is this value's alone. Stopping a port that is not started does nothing; after closing, its
        // buffers are back in their mempool; the device is removed last, once.
        unsafe {
            sys::rte_eth_dev_stop(self.port);
            sys::rte_eth_dev_close(self.port);
            if self.dma {
                let (base, len) = self.pool.region();
                sys::rte_dev_dma_unmap(self.device, base.as_ptr().cast(), base.as_ptr() as u64, len);
            }
            sys::rte_dev_remove(self.device);
        }
    }
}

fn mtu(config: &EthConfig) -> u16 {
    config.max_frame.saturating_sub(ETHER_HEADER).max(LEAST_MTU)
}

fn c_string(text: &str) -> Result<CString, EthError> {
    CString::new(text)
        .map_err(|_| EthError::Devargs { devargs: text.replace('\0', "\\0"), why: "NUL in the middle".to_owned() })
}
