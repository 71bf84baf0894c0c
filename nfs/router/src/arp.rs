//! Answers to ARP requests for the router's own addresses (RFC 826).

use crate::state::{Core, From};
use chainline_nf::{Ctx, Packet, Reason, Verdict};
use chainline_packet::ether::{Arp, HEADER_LEN, Mac};

/// Bytes of a packet for IPv4 over Ethernet.
const LEN: usize = 28;

impl Core {
    pub(crate) fn arp(&mut self, packet: &mut Packet<'_>, from: From, ctx: &Ctx<'_>) -> Result<Verdict, Reason> {
        let refused = self.reasons.arp;
        let interface = self.interfaces.get(from.interface).ok_or(refused)?;
        let arp = Arp::new(packet.data().get(HEADER_LEN..).unwrap_or_default()).ok_or(refused)?;
        let (asker, asked) = (arp.sender_mac(), arp.target_ip());
        // A host that looks whether its address is free asks from 0.0.0.0 (RFC 5227): it is told as well.
        let ours = arp.operation() == 1 && interface.has(asked.into());
        if !ours || asker.0[0] & 1 != 0 || asker == Mac::default() {
            return Err(refused);
        }
        let mac = interface.mac.0;
        let frame = packet.data_mut().first_chunk_mut::<{ HEADER_LEN + LEN }>().ok_or(refused)?;
        frame[..6].copy_from_slice(&asker.0);
        frame[6..12].copy_from_slice(&mac);
        let arp = &mut frame[HEADER_LEN..];
        arp[7] = 2;
        // Who asked, with its address, becomes the target.
        arp.copy_within(8..18, 18);
        arp[8..14].copy_from_slice(&mac);
        arp[14..18].copy_from_slice(&asked);
        self.count(|c| c.arp_replies, ctx);
        Ok(self.out(from, from.interface))
    }
}
