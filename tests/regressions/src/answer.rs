//! What an instance tells the manager: any datagram with any descriptors, and any body.
//!
//! Input: the datagram's length (0 to 15) in the lower and the number of its descriptors in the upper half of a
//! byte, its bytes, then the body in the first descriptor.

use chainline_runtime::setup::FromInstance;
use chainline_runtime::wire::{self, WireError};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};

/// The target.
pub fn run(data: &[u8]) {
    let _ = play(data);
}

/// Plays an input, and says what was understood, if anything.
pub fn play(data: &[u8]) -> Option<FromInstance> {
    let (shape, rest) = data.split_first()?;
    let (datagram, body) = rest.split_at(usize::from(shape & 15).min(rest.len()));
    let (ours, theirs) = wire::pair().unwrap();
    let mut file = File::from(rustix::fs::memfd_create("t", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
    file.write_all(body).unwrap();
    let fds: Vec<BorrowedFd<'_>> = vec![file.as_fd(); usize::from(shape >> 4)];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(&fds)));
    sendmsg(&theirs, &[IoSlice::new(datagram)], &mut control, SendFlags::NOSIGNAL).unwrap();
    drop(theirs);
    match wire::recv_at_most::<FromInstance>(&ours, 0) {
        Ok((message, besides)) => {
            assert!(besides.is_empty() && fds.len() == 1, "more descriptors than were to be taken");
            // What was understood can be said again.
            let again = serde_json::to_vec(&message).unwrap();
            let again: FromInstance = serde_json::from_slice(&again).unwrap();
            assert_eq!(serde_json::to_value(&message).unwrap(), serde_json::to_value(&again).unwrap());
            return Some(message);
        }
        Err(WireError::Closed) => assert!(datagram.is_empty(), "a datagram was taken for the end"),
        Err(WireError::Malformed(words)) => assert!(words.len() < 2 * data.len() + 1024),
        Err(WireError::Io(e)) => panic!("{e}"),
    }
    None
}
