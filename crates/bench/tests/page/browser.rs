//! A headless Chromium, driven by the DevTools protocol through a pipe: no port, no other program, no network.
//!
//! The protocol: JSON objects that end with a zero byte, commands into file descriptor 3, answers and events out of
//! file descriptor 4 (`--remote-debugging-pipe`).

use base64::Engine;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// No step takes as long on any machine; whoever waits longer fails.
const DEADLINE: Duration = Duration::from_secs(90);

/// A browser with one page.
pub struct Browser {
    child: Child,
    replies: Receiver<Value>,
    next: u64,
    session: Option<String>,
    events: Vec<Value>,
    profile: std::path::PathBuf,
}

impl Browser {
    /// `None`, and a word, when it is not installed.
    pub fn start() -> Option<Self> {
        let there = |p: &&str| Command::new(p).arg("--version").output().is_ok_and(|o| o.status.success());
        let Some(program) = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(there) else {
            println!("skipped: no chromium (scripts/deps.sh --test installs it)");
            return None;
        };
        static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let profile = std::env::temp_dir().join(format!("chainline-page-{}-{number}", std::process::id()));
        // The shell moves the pipes to where the browser wants them.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<&0 4>&1 >&2", "sh", program, "--headless=new", "--no-sandbox", "--disable-gpu"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-first-run", "--disable-extensions"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--host-resolver-rules=MAP * ~NOTFOUND", "--window-size=1400,1000", "--hide-scrollbars"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (sender, replies) = channel();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while out.read_until(0, &mut bytes).is_ok_and(|n| n > 0) {
                bytes.pop();
                let Ok(value) = serde_json::from_slice(&bytes) else { return };
                if sender.send(value).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
        let mut browser = Self { child, replies, next: 0, session: None, events: Vec::new(), profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// One command and its answer; events that come meanwhile are kept.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let mut command = json!({"id": self.next, "method": method, "params": params});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.child.stdin.as_mut().unwrap().write_all(&bytes).unwrap();
        loop {
            let reply = self.replies.recv_timeout(DEADLINE).unwrap_or_else(|e| panic!("{method}: no answer: {e}"));
            if reply["id"] == json!(self.next) {
                assert!(reply.get("error").is_none(), "{method}: {reply}");
                return reply["result"].clone();
            }
            self.events.push(reply);
        }
    }

    /// Opens a file, and waits until its script ran.
    pub fn open(&mut self, path: &Path) {
        self.events.clear();
        let answer = self.call("Page.navigate", json!({"url": format!("file://{}", path.display())}));
        assert!(answer.get("errorText").is_none(), "{answer}");
        self.until("document.readyState === 'complete' && document.documentElement.dataset.ready !== undefined");
    }

    /// The value of an expression, of a promise what it comes to.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", params);
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true.
    pub fn until(&mut self, expression: &str) {
        let start = std::time::Instant::now();
        while self.eval(expression) != json!(true) {
            assert!(start.elapsed() < DEADLINE, "never true: {expression}\n{:?}", self.complaints());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Moves the mouse, presses or releases its left button.
    pub fn mouse(&mut self, kind: &str, (x, y): (f64, f64), buttons: u8) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let params = json!({"type": kind, "x": x, "y": y, "button": button, "buttons": buttons, "clickCount": 1});
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Whether the page believes that its reader likes it dark.
    pub fn dark(&mut self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// The whole page as a picture.
    pub fn screenshot(&mut self, path: &Path) {
        let picture = self.call("Page.captureScreenshot", json!({"captureBeyondViewport": true, "format": "png"}));
        let bytes = base64::engine::general_purpose::STANDARD.decode(picture["data"].as_str().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// Everything that the page asked for, since it was opened.
    pub fn fetched(&mut self) -> Vec<String> {
        // Events come in order: when this is answered, all before it are there.
        self.eval("0");
        let asked = self.events.iter().filter(|e| e["method"] == "Network.requestWillBeSent");
        let urls = asked.map(|e| e["params"]["request"]["url"].as_str().unwrap_or_default().to_owned());
        urls.filter(|u| !u.starts_with("data:") && !u.starts_with("blob:")).collect()
    }

    /// Errors and warnings of scripts, of the policy, of the browser.
    fn complaints(&self) -> Vec<String> {
        let loud = |e: &&Value| match e["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                ["error", "warning"].contains(&e["params"]["type"].as_str().unwrap_or(""))
            }
            Some("Log.entryAdded") => {
                e["params"]["entry"]["level"] != "verbose" && e["params"]["entry"]["level"] != "info"
            }
            _ => false,
        };
        self.events.iter().filter(loud).map(|e| e["params"].to_string()).collect()
    }

    /// Nothing complained so far.
    pub fn quiet(&mut self) {
        self.eval("0");
        let complaints = self.complaints();
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends with its pipe; else it is ended.
        drop(self.child.stdin.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.profile);
    }
}
