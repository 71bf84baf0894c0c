//! Requests of the control socket, a line each: refused in few words that a terminal can show, or read; what was read can
//! be written and is read again as the same.

use chainline_ctl::{Id, METHODS, parse};
use std::mem::discriminant;

/// The target.
pub fn run(data: &[u8]) {
    for line in data.split(|b| *b == b'\n') {
        match parse(line) {
            Ok((id, call)) => {
                let mut request = serde_json::to_value(&call).unwrap();
                assert!(METHODS.contains(&request["method"].as_str().unwrap()));
                request["id"] = serde_json::to_value(&id).unwrap();
                let again = serde_json::to_vec(&request).unwrap();
                // Numbers with a point may come back as their neighbours.
                let (id_again, call_again) = parse(&again).unwrap();
                assert_eq!((id_again, discriminant(&call_again)), (id, discriminant(&call)));
            }
            Err((id, fault)) => {
                assert!(fault.hint.is_some() && !fault.message.is_empty());
                assert!(fault.message.len() < 2000, "{} bytes", fault.message.len());
                assert!(!fault.message.contains(|c: char| c.is_control()), "{:?}", fault.message);
                assert!(!matches!(&id, Id::Text(text) if text.len() > Id::LONGEST));
            }
        }
    }
}
