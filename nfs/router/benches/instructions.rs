//! Runs bursts of 64-byte frames for a count of instructions a packet: `valgrind --tool=callgrind`, twice, with
//! different numbers of bursts as argument.

mod rig;

fn main() {
    rig::support::count(&nf_router::KIND, rig::rig);
}
