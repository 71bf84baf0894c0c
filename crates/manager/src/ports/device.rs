//! A DPDK device: kernel interfaces, memif, NICs, and whatever else DPDK has a driver for.

use super::{Frame, Frames, PORT_BURST, Port, PortError, PortLoss};
use crate::buffers::Buffers;
use chainline_chain::model::{MemifRole, Port as Spec};
use chainline_dpdk::{EthConfig, EthDev, Frame as DpdkFrame, Pool};
use std::path::Path;

/// A device that DPDK drives. Received frames are in the region's buffers already, sent ones leave from there;
/// where the driver cannot do that it copies.
pub struct Device {
    dev: EthDev,
    /// Slots for one call.
    frames: [DpdkFrame; PORT_BURST],
}

impl Device {
    /// Opens the device that a chain file describes, over a tenant's buffers. `number` makes its name unique.
    ///
    /// # Errors
    /// When DPDK cannot open it.
    pub fn open(spec: &Spec, number: usize, dir: &Path, pool: &Pool, max_frame: u16) -> Result<Self, PortError> {
        if let Spec::AfPacket(d) | Spec::AfXdp(d) = spec {
            exists(&d.interface)?;
        }
        let devargs = match spec {
            Spec::AfPacket(d) => format!("net_af_packet{number},iface={}", d.interface),
            Spec::AfXdp(d) => format!("net_af_xdp{number},iface={}", d.interface),
            Spec::Tap(d) => format!("net_tap{number},iface={}", d.interface),
            Spec::Memif(m) => {
                let role = match m.role {
                    MemifRole::Server => "server",
                    MemifRole::Client => "client",
                };
                let (socket, kind) = match m.socket.strip_prefix('@') {
                    Some(name) => (name.to_owned(), "yes"),
                    None => (dir.join(&m.socket).display().to_string(), "no"),
                };
                format!("net_memif{number},role={role},id={},socket={socket},socket-abstract={kind}", m.id)
            }
            Spec::Vdev(args) => args.clone(),
            Spec::Pci(address) => address.clone(),
            Spec::Pcap(_) | Spec::Generator(_) | Spec::Sink(_) => {
                return Err(PortError::Device(format!("{} is no device", spec.word())));
            }
        };
        let config = EthConfig { max_frame, ..EthConfig::default() };
        let dev = EthDev::attach(&devargs, pool, &config).map_err(|e| PortError::Device(e.to_string()))?;
        Ok(Self { dev, frames: [DpdkFrame::default(); PORT_BURST] })
    }
}

/// DPDK's own word for a missing interface does not name it.
fn exists(interface: &str) -> Result<(), PortError> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::DGRAM, None);
    let index = socket.and_then(|s| rustix::net::netdevice::name_to_index(s, interface));
    index.map(|_| ()).map_err(|e| {
        PortError::Device(format!("interface {interface}: {e}; expected one of this network namespace, see `ip link`"))
    })
}

impl Port for Device {
    fn receive(&mut self, max: usize, now: u64, _: &mut Buffers, frames: &mut Frames) {
        let n = self.dev.rx(&mut self.frames[..max.min(PORT_BURST)]);
        let arrived = self.frames[..n].iter();
        frames.extend(arrived.map(|f| Frame { index: f.index, off: f.off, len: f.len, hash: None, at: now }));
    }

    fn send(&mut self, frames: &[Frame], _: &mut Buffers) -> usize {
        let mut sent = 0;
        for chunk in frames.chunks(PORT_BURST) {
            for (to, f) in self.frames.iter_mut().zip(chunk) {
                *to = DpdkFrame { index: f.index, off: f.off, len: f.len };
            }
            let n = self.dev.tx(&self.frames[..chunk.len()]);
            sent += n;
            if n < chunk.len() {
                break;
            }
        }
        sent
    }

    fn flush(&mut self) {
        self.dev.flush();
    }

    fn loss(&self) -> PortLoss {
        let s = self.dev.stats();
        PortLoss {
            no_buffer: s.rx_no_buffer,
            too_long: s.rx_oversize,
            missed: s.rx_missed + s.rx_nombuf,
            unsent: s.tx_oversize + s.tx_errors,
        }
    }
}
