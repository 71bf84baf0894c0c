//! Ports against each other and against the defaults.

use super::Check;
use crate::diag::Diagnostic;
use crate::model::{FCS_BYTES, Port};
use chainline_workload::Error;
use std::collections::HashMap;

pub(super) fn check(c: &mut Check<'_>) {
    shared(c);
    frames(c);
    stamps(c);
}

/// What only one port can have.
#[derive(PartialEq, Eq, Hash)]
enum Resource<'a> {
    /// A file that is written; readers of the same file would read what is being written.
    Written(&'a std::path::Path),
    Interface(&'a str),
    Memif(&'a str, u32),
    Vdev(&'a str),
    Pci(String),
}

impl Resource<'_> {
    fn describe(&self) -> String {
        match self {
            Self::Written(path) => format!("the file {}", path.display()),
            Self::Interface(name) => format!("the interface `{name}`"),
            Self::Memif(socket, id) => format!("the memif {id} of socket {socket}"),
            Self::Vdev(name) => format!("the device `{name}`"),
            Self::Pci(address) => format!("the device {address}"),
        }
    }
}

fn resource(port: &Port) -> Option<(Resource<'_>, &'static str)> {
    Some(match port {
        Port::Pcap(p) => (Resource::Written(p.write.as_deref()?), "pcap.write"),
        Port::Generator(_) | Port::Sink(_) => return None,
        Port::AfPacket(n) => (Resource::Interface(&n.interface), "af_packet.interface"),
        Port::AfXdp(n) => (Resource::Interface(&n.interface), "af_xdp.interface"),
        Port::Tap(n) => (Resource::Interface(&n.interface), "tap.interface"),
        Port::Memif(m) => (Resource::Memif(&m.socket, m.id), "memif.socket"),
        Port::Vdev(text) => (Resource::Vdev(text.split(',').next().unwrap_or_default()), "vdev"),
        Port::Pci(text) => {
            let address = text.split(',').next().unwrap_or_default().to_lowercase();
            let full = if address.matches(':').count() == 1 { format!("0000:{address}") } else { address };
            (Resource::Pci(full), "pci")
        }
    })
}

fn shared(c: &mut Check<'_>) {
    let mut owners: HashMap<Resource<'_>, String> = HashMap::new();
    for (name, port) in &c.spec.ports {
        let Some((resource, field)) = resource(port) else { continue };
        let place = format!("spec.ports.{name}.{field}");
        if let Some(first) = owners.get(&resource) {
            let what = resource.describe();
            let message = format!("found {what} in a second port, expected it in one");
            let diagnostic = Diagnostic::error(c.at(&place), message)
                .related(c.at(first), "the first is")
                .help("several chains can name the same port");
            c.push(diagnostic);
        } else {
            owners.insert(resource, place);
        }
    }
    for (name, port) in &c.spec.ports {
        if let Port::Pcap(p) = port
            && p.write.is_none()
            && let Some(read) = p.read.as_deref()
            && let Some(writer) = owners.get(&Resource::Written(read))
        {
            let place = c.at(&format!("spec.ports.{name}.pcap.read"));
            let message = format!("found the file {} read while another port writes it", read.display());
            let diagnostic = Diagnostic::error(place, message).related(c.at(writer), "it is written");
            c.push(diagnostic);
        }
    }
}

/// Traffic that cannot be made, and frames that no buffer could hold.
fn frames(c: &mut Check<'_>) {
    let most = c.spec.defaults.max_frame_bytes;
    for (name, port) in &c.spec.ports {
        let Port::Generator(g) = port else { continue };
        let place = format!("spec.ports.{name}.generator");
        let field = if g.mix.is_some() { "mix" } else { "frame_bytes" };
        let mix = match g.own_mix() {
            Ok(Some(mix)) => mix,
            // In another file, which is read when the port is opened.
            Ok(None) => continue,
            Err(e) => {
                c.error(&format!("{place}.{field}"), e.to_string());
                continue;
            }
        };
        let largest = mix.largest_frame_bytes();
        if most > 0 && u32::from(largest.saturating_sub(FCS_BYTES)) > most {
            let message = format!(
                "found frames of {largest} bytes with FCS, expected at most {}: `max_frame_bytes` is {most} without FCS",
                most + u32::from(FCS_BYTES)
            );
            c.error(&format!("{place}.{field}"), message);
        }
        // Two IP versions were reported where they were read.
        if let Err(e) = g.workload(mix, g.own_lengths()).check()
            && e != Error::Versions
        {
            c.error(&format!("{place}.{}", field_of(&e, field)), format!("found {e}"));
        }
    }
}

/// Sinks that look for stamps that nobody writes.
fn stamps(c: &mut Check<'_>) {
    if c.spec.ports.values().any(|p| matches!(p, Port::Generator(g) if g.stamp)) {
        return;
    }
    for (name, port) in &c.spec.ports {
        if matches!(port, Port::Sink(s) if s.check) {
            let message = "found a sink that checks stamps, and no generator that writes them";
            let place = c.at(&format!("spec.ports.{name}.sink.check"));
            c.push(Diagnostic::error(place, message).help("give a generator of this file `stamp: true`"));
        }
    }
}

/// The field that an error is about.
fn field_of(error: &Error, sizes: &'static str) -> &'static str {
    match error {
        Error::Flows(_) | Error::StampedFlows(_) | Error::Live(_) | Error::Capacity { .. } => "flows",
        Error::Length | Error::StampedEnds => "flow_packets",
        Error::Ports { .. } => "dst_port",
        Error::Versions => "dst",
        Error::Hosts { .. } => "hosts",
        Error::Exponent | Error::Interleave { .. } => "order",
        Error::WorkingSet { .. } => "working_set",
        Error::Vlan(_) => "vlan",
        Error::Short { .. } => sizes,
    }
}
