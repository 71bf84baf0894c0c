//! Messages with file descriptors over a UNIX socket.
//!
//! The body is JSON in a memfd, which has no size limit worth a fragmentation scheme; the datagram itself carries
//! only the number of descriptors. Both ends treat what they receive as coming from a stranger.

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::{Serialize, de::DeserializeOwned};
use std::io::{IoSlice, IoSliceMut, Read, Seek, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Descriptors in one datagram; the kernel's limit is 253.
const FDS_PER_DATAGRAM: usize = 128;
/// Bytes of a message body.
const MAX_BODY: u64 = 64 << 20;
/// Descriptors of a message.
const MAX_FDS: usize = 16 * 1024;

/// What may go wrong.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other side is gone.
    #[error("the other side closed the connection")]
    Closed,
    /// The kernel refused.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The other side does not keep to the protocol.
    #[error("malformed message: {0}")]
    Malformed(String),
}

impl From<rustix::io::Errno> for WireError {
    fn from(e: rustix::io::Errno) -> Self {
        match e {
            rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET => Self::Closed,
            e => Self::Io(e.into()),
        }
    }
}

/// Two connected sockets.
///
/// # Errors
/// When no file descriptor is left.
pub fn pair() -> Result<(OwnedFd, OwnedFd), WireError> {
    Ok(socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Sends `message` with `fds`.
///
/// # Errors
/// When the other side is gone or the kernel refuses.
pub fn send<T: Serialize>(socket: impl AsFd, message: &T, fds: &[BorrowedFd<'_>]) -> Result<(), WireError> {
    send_by(socket, message, fds, SendFlags::NOSIGNAL)
}

/// Sends `message`, or fails if that would have to wait.
///
/// # Errors
/// As [`send`], and when the other side has not read what came before.
pub fn try_send<T: Serialize>(socket: impl AsFd, message: &T) -> Result<(), WireError> {
    send_by(socket, message, &[], SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn send_by<T: Serialize>(
    socket: impl AsFd,
    message: &T,
    fds: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> Result<(), WireError> {
    let mut body = std::fs::File::from(memfd_create("chainline-message", MemfdFlags::CLOEXEC)?);
    body.write_all(&serde_json::to_vec(message).map_err(|e| WireError::Malformed(e.to_string()))?)?;
    let all: Vec<BorrowedFd<'_>> = std::iter::once(body.as_fd()).chain(fds.iter().copied()).collect();
    let total = (all.len() as u32).to_le_bytes();
    for chunk in all.chunks(FDS_PER_DATAGRAM) {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_PER_DATAGRAM))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(chunk));
        sendmsg(&socket, &[IoSlice::new(&total)], &mut control, flags)?;
    }
    Ok(())
}

/// Receives a message and its descriptors; waits for it.
///
/// # Errors
/// When the other side is gone or does not keep to the protocol.
pub fn recv<T: DeserializeOwned>(socket: impl AsFd) -> Result<(T, Vec<OwnedFd>), WireError> {
    recv_at_most(socket, MAX_FDS)
}

/// As [`recv`], but refuses a message with more than `most` descriptors besides its body. With 0 the message is one
/// datagram, and a peer that stops in the middle of one cannot hold the caller up.
///
/// # Errors
/// As [`recv`].
pub fn recv_at_most<T: DeserializeOwned>(socket: impl AsFd, most: usize) -> Result<(T, Vec<OwnedFd>), WireError> {
    let mut fds = Vec::new();
    loop {
        let mut total = [0u8; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_PER_DATAGRAM))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = recvmsg(&socket, &mut [IoSliceMut::new(&mut total)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        if got.bytes == 0 {
            return Err(WireError::Closed);
        }
        for m in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = m {
                fds.extend(rights);
            }
        }
        let total = u32::from_le_bytes(total) as usize;
        if got.bytes != 4 || total == 0 || total > most + 1 || fds.is_empty() || fds.len() > total {
            return Err(WireError::Malformed(format!("{} of {total} descriptors", fds.len())));
        }
        if fds.len() == total {
            break;
        }
    }
    let mut body = std::fs::File::from(fds.remove(0));
    if !body.metadata()?.is_file() {
        return Err(WireError::Malformed("the body is no memory".into())); // reading a pipe could take for ever
    }
    body.rewind()?;
    let mut text = Vec::new();
    body.take(MAX_BODY).read_to_end(&mut text)?;
    let message = serde_json::from_slice(&text).map_err(|e| WireError::Malformed(e.to_string()))?;
    Ok((message, fds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_descriptors_and_a_large_body_arrive_in_order() {
        let (a, b) = pair().unwrap();
        let files: Vec<_> = (0..300u32)
            .map(|i| {
                let mut f = std::fs::File::from(memfd_create("t", MemfdFlags::CLOEXEC).unwrap());
                f.write_all(&i.to_le_bytes()).unwrap();
                f
            })
            .collect();
        let text = "x".repeat(1 << 20);
        send(&a, &text, &files.iter().map(AsFd::as_fd).collect::<Vec<_>>()).unwrap();
        let (got, fds): (String, _) = recv(&b).unwrap();
        assert_eq!(got, text);
        for (i, fd) in fds.into_iter().enumerate() {
            let (mut f, mut word) = (std::fs::File::from(fd), [0; 4]);
            f.rewind().unwrap();
            f.read_exact(&mut word).unwrap();
            assert_eq!(u32::from_le_bytes(word) as usize, i);
        }
        drop(a);
        assert!(matches!(recv::<String>(&b), Err(WireError::Closed)));
    }

    #[test]
    fn garbage_is_refused() {
        let (a, b) = pair().unwrap();
        rustix::net::send(&a, b"hello world", SendFlags::empty()).unwrap();
        assert!(matches!(recv::<String>(&b), Err(WireError::Malformed(_))));
    }
}
