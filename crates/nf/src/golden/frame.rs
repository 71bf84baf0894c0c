//! Frames as text: hex, or layers such as `eth/ipv4(10.0.0.1, 10.0.0.2, ttl=3)/udp(53, 53)/pad(20)`.
//!
//! Lengths, protocol numbers and checksums follow from the layers; a field named explicitly wins, so wrong
//! frames can be written too. [`describe`] is the inverse: it names the layers of a frame where that is exact.

use super::layers::{self, Layer};

/// The longest frame that fits a buffer with its headroom, in bytes.
pub(super) const MAX_FRAME: usize = 60_000;

/// Reads a frame.
pub(super) fn parse(text: &str) -> Result<Vec<u8>, String> {
    let bytes = if text.starts_with("eth") || text.contains('(') { from_layers(text)? } else { from_hex(text)? };
    if bytes.len() > MAX_FRAME {
        return Err(format!("a frame of {} bytes; the longest is {MAX_FRAME}", bytes.len()));
    }
    Ok(bytes)
}

/// Hex digits; blanks, `:` and `|` are for the eye, `pad 26` stands for 26 zero bytes.
pub(super) fn from_hex(text: &str) -> Result<Vec<u8>, String> {
    let (mut bytes, mut high) = (Vec::new(), None);
    let mut words = text.split_whitespace();
    while let Some(word) = words.next() {
        if word == "pad" {
            let n = words.next().unwrap_or_default();
            let n: usize = n.parse().map_err(|_| format!("`pad {n}`: expected a number of bytes"))?;
            bytes.resize(bytes.len() + n.min(MAX_FRAME + 1), 0);
            continue;
        }
        for c in word.chars().filter(|c| !matches!(c, ':' | '|')) {
            let digit =
                c.to_digit(16).ok_or_else(|| format!("`{c}` in `{word}` is neither a hex digit nor a layer"))?;
            match high.take() {
                None => high = Some(digit),
                Some(h) => bytes.push((h << 4 | digit) as u8),
            }
        }
    }
    if high.is_some() { Err("an odd number of hex digits".into()) } else { Ok(bytes) }
}

fn from_layers(text: &str) -> Result<Vec<u8>, String> {
    let layers = split(text)?.into_iter().map(Layer::parse).collect::<Result<Vec<_>, _>>()?;
    layers::build(&layers)
}

/// Splits at the slashes that are outside parentheses and quotes.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut depth, mut quoted) = (Vec::new(), 0, 0_u32, false);
    for (i, c) in text.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted => depth = depth.checked_sub(1).ok_or("a `)` without its `(`")?,
            '/' if !quoted && depth == 0 => {
                parts.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if depth != 0 || quoted {
        return Err("a `(` or `\"` that is never closed".into());
    }
    parts.push(text[start..].trim());
    Ok(parts)
}

/// The frame in layers if that gives exactly these bytes again, else in hex.
pub(super) fn describe(frame: &[u8]) -> String {
    for checksums in [false, true] {
        if let Some(text) = super::describe::layers(frame, checksums)
            && from_layers(&text).is_ok_and(|b| b == frame)
        {
            return text;
        }
    }
    hex(frame)
}

/// Hex, the 14 bytes of the Ethernet header apart, a long run of zeros at the end as `pad N`.
pub(super) fn hex(frame: &[u8]) -> String {
    let zeros = frame.iter().rev().take_while(|b| **b == 0).count();
    let (body, pad) = if zeros > 8 { (frame.len() - zeros, zeros) } else { (frame.len(), 0) };
    let mut text = String::new();
    for (i, b) in frame[..body].iter().enumerate() {
        let gap = if i == 0 {
            ""
        } else if i == 14 {
            " | "
        } else {
            " "
        };
        text += &format!("{gap}{b:02x}");
    }
    if pad > 0 {
        text += &format!("{}pad {pad}", if body == 0 { "" } else { " " });
    }
    text
}
