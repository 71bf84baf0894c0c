//! The other side: asks, and waits for the answer.

use crate::answer::{Fault, Reply};
use crate::request::{Call, Id};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A change of structure waits for NFs to be built; a full routing table takes seconds.
const PATIENCE: Duration = Duration::from_secs(180);
/// The longest answer that is believed.
const LONGEST: u64 = 64 << 20;

/// A connection to a run.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
    asked: u64,
}

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens, or the connection ended.
    #[error("{}: {error}", path.display())]
    Connection {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The answer is none.
    #[error("{}: found an answer that is none of this protocol: {what}", path.display())]
    Nonsense {
        /// The socket.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// The run says no.
    #[error("{}", .0.message)]
    Refused(Fault),
}

impl Client {
    /// Connects.
    ///
    /// # Errors
    /// When nobody listens there, or this user may not.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let failed = |error| ClientError::Connection { path: path.to_owned(), error };
        let stream = UnixStream::connect(path).map_err(failed)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        Ok(Self { path: path.to_owned(), stream: BufReader::new(stream), asked: 0 })
    }

    /// Asks, and waits for the result.
    ///
    /// # Errors
    /// As [`ClientError`] says.
    pub fn call(&mut self, call: &Call) -> Result<Value, ClientError> {
        let lost = |error| ClientError::Connection { path: self.path.clone(), error };
        let nonsense = |what: String| ClientError::Nonsense { path: self.path.clone(), what };
        self.asked += 1;
        let mut request = serde_json::to_value(call).map_err(|e| nonsense(e.to_string()))?;
        request["id"] = self.asked.into();
        let line = request.to_string() + "\n";
        // A run that refuses the line may have closed already; what it said is still there to read.
        let written = self.stream.get_mut().write_all(line.as_bytes());
        let mut answer = Vec::new();
        let read = self.stream.by_ref().take(LONGEST).read_until(b'\n', &mut answer);
        if !answer.ends_with(b"\n") {
            written.map_err(lost)?;
            read.map_err(lost)?;
            return Err(lost(io::Error::new(io::ErrorKind::UnexpectedEof, "the run ended")));
        }
        let reply: Reply = serde_json::from_slice(&answer).map_err(|e| nonsense(e.to_string()))?;
        match reply {
            Reply { error: Some(fault), .. } => Err(ClientError::Refused(fault)),
            Reply { id: Id::Number(id), result: Some(result), .. } if id == self.asked => Ok(result),
            other => Err(nonsense(format!("{:?} where {} was due", other.id, self.asked))),
        }
    }
}

/// [`Client::call`] for a result of a known type.
///
/// # Errors
/// As there.
pub fn answer<T: DeserializeOwned>(client: &mut Client, call: &Call) -> Result<T, ClientError> {
    let result = client.call(call)?;
    serde_json::from_value(result).map_err(|e| ClientError::Nonsense { path: client.path.clone(), what: e.to_string() })
}
