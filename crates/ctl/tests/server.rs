//! What the server stands: garbage, floods, endless lines, clients that never read, a thousand connections.
//! Others get their answers all the while. Judged by counts and answers; deadlines only turn a hang into a failure.
#![allow(clippy::unwrap_used)]

use chainline_ctl::{Call, Client, ClientError, Fault, Limits, Listener, Reply, Server, SocketPath, Word, answer};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A directory that goes with its value.
struct Dir(PathBuf);

impl Dir {
    fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let path = std::env::temp_dir().join(format!("ctl-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed)));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A served socket whose answers are made by a thread: to `list` the number of requests so far, to `file` a megabyte.
struct Scene {
    dir: Dir,
    over: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Scene {
    fn new(limits: Limits) -> Self {
        let dir = Dir::new();
        let listener = Listener::bind(&SocketPath::At(dir.0.join("s")), "x").unwrap();
        let server = Server::start(listener, limits).unwrap();
        let (over, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (o, a) = (over.clone(), asked.clone());
        let thread = std::thread::spawn(move || {
            while !o.load(Relaxed) {
                let mut fds = [rustix::event::PollFd::from_borrowed_fd(server.fd(), rustix::event::PollFlags::IN)];
                let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
                let _ = rustix::event::poll(&mut fds, Some(&wait));
                while let Some(ask) = server.take() {
                    let n = a.fetch_add(1, Relaxed) + 1;
                    match ask.call {
                        Call::File => ask.answer.send(Ok(json!("x".repeat(1 << 20)))),
                        Call::Reload => drop(ask),
                        _ => ask.answer.send(Ok(json!(n))),
                    }
                }
            }
        });
        Self { dir, over, asked, thread: Some(thread) }
    }

    fn path(&self) -> PathBuf {
        self.dir.0.join("s")
    }

    fn stream(&self) -> UnixStream {
        let stream = UnixStream::connect(self.path()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// An honest client gets its answer.
    fn assert_alive(&self) {
        let mut client = Client::connect(&self.path()).unwrap();
        let n: u64 = answer(&mut client, &Call::List).unwrap();
        assert!(n > 0 && n <= self.asked.load(Relaxed));
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn replies(stream: UnixStream) -> Vec<Reply> {
    let lines = BufReader::new(stream).lines();
    lines.map_while(Result::ok).map(|l| serde_json::from_str(&l).unwrap()).collect()
}

/// Limits that no test here waits for.
fn wide() -> Limits {
    Limits { per_second: 1e6, burst: 1e6, ..Limits::default() }
}

#[test]
fn requests_of_one_line_each_are_answered_in_their_order() {
    let scene = Scene::new(wide());
    let mut stream = scene.stream();
    let text: String = (0..500).map(|i| format!("{{\"id\": {i}, \"method\": \"list\"}}\n\n")).collect();
    stream.write_all(text.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let all = replies(stream);
    let ids: Vec<Value> = all.iter().map(|r| json!(r.id)).collect();
    assert_eq!(ids, (0..500).map(|i| json!(i)).collect::<Vec<_>>());
    assert!(all.iter().all(|r| r.result.is_some() && r.error.is_none()));
}

#[test]
fn garbage_is_answered_and_the_next_line_is_read() {
    let scene = Scene::new(wide());
    let mut stream = scene.stream();
    let mut bytes: Vec<u8> = Vec::new();
    let mut random = 12345_u64;
    for _ in 0..200 {
        for _ in 0..50 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let byte = (random >> 33) as u8;
            bytes.push(if byte == b'\n' { b'{' } else { byte });
        }
        bytes.extend(b"x\n");
    }
    bytes.extend(b"{\"id\": 7, \"method\": \"stats\"}\n");
    stream.write_all(&bytes).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let all = replies(stream);
    assert_eq!(all.len(), 201);
    assert!(all[..200].iter().all(|r| r.error.as_ref().unwrap().code == Word::Malformed));
    assert_eq!((json!(all[200].id), all[200].error.is_none()), (json!(7), true));
    assert_eq!(scene.asked.load(Relaxed), 1, "garbage goes no further");
    scene.assert_alive();
}

#[test]
fn an_endless_line_is_refused_and_costs_no_more_than_its_limit() {
    let scene = Scene::new(Limits { line: 4096, ..wide() });
    let mut stream = scene.stream();
    let mut sent = 0_usize;
    // The server closes; until then the socket takes what it has room for.
    while stream.write_all(&[b'x'; 4096]).is_ok() {
        sent += 4096;
        assert!(sent < 64 << 20, "the server reads on for ever");
    }
    let all = replies(stream);
    assert_eq!(all.iter().map(|r| r.error.as_ref().unwrap().code).collect::<Vec<_>>(), [Word::TooLong]);
    scene.assert_alive();
    // A line of exactly the limit is none too long.
    let mut stream = scene.stream();
    let line = format!("{:<4095}\n{:<4096}\n", r#"{"method": "list"}"#, r#"{"method": "list"}"#);
    stream.write_all(line.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert!(replies(stream).iter().all(|r| r.result.is_some()));
}

#[test]
fn a_client_that_never_reads_is_let_go_and_others_are_served() {
    let scene = Scene::new(Limits { unread: Duration::from_millis(100), ..wide() });
    let mut stream = scene.stream();
    // Answers of a megabyte each: the socket's own buffer is far smaller.
    let text: String = (0..100).map(|i| format!("{{\"id\": {i}, \"method\": \"file\"}}\n")).collect();
    stream.write_all(text.as_bytes()).unwrap();
    scene.assert_alive();
    // It is gone when writing to it fails. Empty lines are no requests.
    while stream.write_all(b"\n").is_ok() {
        std::thread::yield_now();
    }
    let asked = scene.asked.load(Relaxed);
    assert!(asked <= 3, "{asked} answers were made for somebody who reads none");
    scene.assert_alive();
}

#[test]
fn a_slow_reader_gets_all_of_a_long_answer() {
    let scene = Scene::new(wide());
    let mut stream = scene.stream();
    stream.write_all(b"{\"method\": \"file\"}\n").unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut got = Vec::new();
    let mut piece = [0; 10_000];
    loop {
        match stream.read(&mut piece).unwrap() {
            0 => break,
            n => got.extend_from_slice(&piece[..n]),
        }
        std::thread::yield_now();
    }
    let reply: Reply = serde_json::from_slice(&got).unwrap();
    assert_eq!(reply.result.unwrap().as_str().unwrap().len(), 1 << 20);
}

/// A client that floods is not read from any faster than allowed: what it sends stays in its own socket.
#[test]
fn a_flood_is_let_in_at_its_rate_and_others_are_served() {
    let scene = Scene::new(Limits { per_second: 1.0, burst: 5.0, ..Limits::default() });
    let stream = scene.stream();
    stream.set_nonblocking(true).unwrap();
    let line = b"{\"method\": \"stats\"}\n".repeat(100);
    let mut stuck = 0;
    // Until the socket takes nothing more, many times in a row.
    while stuck < 1000 {
        match (&stream).write(&line) {
            Ok(n) if n > 0 => stuck = 0,
            _ => stuck += 1,
        }
    }
    for _ in 0..5 {
        scene.assert_alive();
    }
    let asked = scene.asked.load(Relaxed);
    // Its burst, ours, and what came in the seconds that this took; the socket holds thousands.
    assert!((10..200).contains(&asked), "{asked}");
}

#[test]
fn a_thousand_connections_leave_room_for_one_more() {
    let limits = Limits { silent: Duration::ZERO, ..Limits::default() };
    let scene = Scene::new(limits);
    let mut held = Vec::new();
    for _ in 0..1000 {
        match UnixStream::connect(scene.path()) {
            Ok(stream) => held.push(stream),
            // The test's own descriptors are at an end, or the backlog is full for the moment.
            Err(_) => std::thread::yield_now(),
        }
    }
    assert!(held.len() > 500, "{}", held.len());
    scene.assert_alive();
    let dead = held.iter().filter(|s| {
        s.set_nonblocking(true).unwrap();
        matches!((&mut &**s).read(&mut [0; 1]), Ok(0))
    });
    assert!(dead.count() + limits.clients + 1 >= held.len(), "the server keeps more than it may");
}

/// Where all have just spoken, one more is told so.
#[test]
fn too_many_clients_are_told_so() {
    let scene = Scene::new(Limits { clients: 3, silent: Duration::from_secs(3600), ..wide() });
    let held: Vec<Client> = (0..3)
        .map(|_| {
            let mut c = Client::connect(&scene.path()).unwrap();
            answer::<u64>(&mut c, &Call::List).unwrap();
            c
        })
        .collect();
    let all = replies(scene.stream());
    assert_eq!(all.iter().map(|r| r.error.as_ref().unwrap().code).collect::<Vec<_>>(), [Word::TooMany]);
    drop(held);
    // When one has gone there is a place again.
    while Client::connect(&scene.path()).and_then(|mut c| answer::<u64>(&mut c, &Call::List)).is_err() {
        std::thread::yield_now();
    }
}

/// Whoever drops a request unanswered has answered it: the run is over.
#[test]
fn nobody_waits_for_an_answer_that_does_not_come() {
    let scene = Scene::new(wide());
    let mut client = Client::connect(&scene.path()).unwrap();
    match client.call(&Call::Reload) {
        Err(ClientError::Refused(Fault { code: Word::Refused, message, .. })) => assert!(message.contains("over")),
        other => panic!("{other:?}"),
    }
    let path = scene.path();
    drop(scene);
    assert!(!path.exists() && client.call(&Call::List).is_err());
}

#[test]
fn sockets_are_private_and_those_of_the_dead_are_taken_over() {
    let dir = Dir::new();
    let at = |name: &str| SocketPath::At(dir.0.join(name));
    let first = Listener::bind(&at("s"), "x").unwrap();
    let mode = std::fs::metadata(first.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
    // One that lives is not taken over, nor is a file that is no socket.
    let taken = Listener::bind(&at("s"), "x").unwrap_err().to_string();
    assert!(taken.contains("already"), "{taken}");
    std::fs::write(dir.0.join("f"), "precious").unwrap();
    let file = Listener::bind(&at("f"), "x").unwrap_err().to_string();
    assert!(file.contains("no socket"), "{file}");
    assert_eq!(std::fs::read_to_string(dir.0.join("f")).unwrap(), "precious");
    // What a killed process leaves: a file that nobody listens at.
    let stale = dir.0.join("t");
    drop(std::os::unix::net::UnixListener::bind(&stale).unwrap());
    assert!(stale.exists());
    drop(Listener::bind(&at("t"), "x").unwrap());
    assert!(!stale.exists());
    let long = Listener::bind(&SocketPath::At(Path::new("/tmp").join("x".repeat(200))), "x").unwrap_err().to_string();
    assert!(long.contains("107"), "{long}");
}
