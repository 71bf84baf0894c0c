//! Runs bursts of 64-byte frames for a count of instructions a packet: `valgrind --tool=callgrind`, twice, with
//! different numbers of bursts as argument.

mod files;

fn main() {
    files::support::count(&nf_logger::KIND, files::rig);
}
