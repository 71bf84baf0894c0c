//! Prefixes as people write them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A prefix: as many bits from the top as its length says, the others 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prefix {
    /// IPv4.
    V4(u32, u8),
    /// IPv6.
    V6(u128, u8),
}

/// The bits of an IPv4 address that a prefix length covers.
pub(crate) fn mask4(depth: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(depth)).unwrap_or(0)
}

/// The same for IPv6.
pub(crate) fn mask6(depth: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(depth)).unwrap_or(0)
}

impl Prefix {
    /// The prefix of `depth` bits that an address is in; a longer `depth` than the address has is all of it.
    #[must_use]
    pub fn around(address: IpAddr, depth: u8) -> Self {
        match address {
            IpAddr::V4(a) => Self::V4(u32::from(a) & mask4(depth.min(32)), depth.min(32)),
            IpAddr::V6(a) => Self::V6(u128::from(a) & mask6(depth.min(128)), depth.min(128)),
        }
    }

    /// The prefix of an address alone.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        Self::around(address, u8::MAX)
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        Self::around(address, self.depth()) == *self
    }

    /// Whether all of `other` is in it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.depth() <= other.depth() && self.has(other.address())
    }

    /// Its first address.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        match *self {
            Self::V4(bits, _) => Ipv4Addr::from(bits).into(),
            Self::V6(bits, _) => Ipv6Addr::from(bits).into(),
        }
    }

    /// Its length in bits.
    #[must_use]
    pub fn depth(&self) -> u8 {
        match *self {
            Self::V4(_, depth) | Self::V6(_, depth) => depth,
        }
    }

    /// Reads `ADDRESS/LENGTH` where the address may have bits beyond the length, as that of an interface has.
    ///
    /// # Errors
    /// What was found and what was expected.
    pub fn with_address(word: &str) -> Result<(IpAddr, Self), String> {
        let expected = "expected a prefix such as 10.0.0.0/8 or 2001:db8::/32";
        let (address, len) = word.split_once('/').ok_or_else(|| format!("found '{word}', {expected}"))?;
        let address: IpAddr = address.parse().map_err(|_| format!("found '{word}', {expected}"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let depth = digits(len).filter(|d| *d <= most);
        let depth = depth.ok_or_else(|| format!("found prefix length '{len}', expected 0 to {most}"))?;
        Ok((address, Self::around(address, depth as u8)))
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let (address, prefix) = Self::with_address(word)?;
        if prefix.address() == address {
            Ok(prefix)
        } else {
            Err(format!("{word} has bits set beyond its length, expected {prefix}"))
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address(), self.depth())
    }
}

/// A number in digits only: `parse` alone would take a `+`.
#[must_use]
pub fn digits(word: &str) -> Option<u32> {
    word.bytes().all(|b| b.is_ascii_digit()).then(|| word.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_as_they_are_written() {
        for text in ["0.0.0.0/0", "10.1.2.128/25", "255.255.255.255/32", "::/0", "2001:db8::/32", "::1/128"] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for (text, message) in [
            ("10.0.0.0", "found '10.0.0.0', expected a prefix"),
            ("10.0.0/8", "expected a prefix"),
            ("10.0.0.0/+8", "found prefix length '+8', expected 0 to 32"),
            ("::/129", "found prefix length '129', expected 0 to 128"),
            ("10.0.0.1/8", "10.0.0.1/8 has bits set beyond its length, expected 10.0.0.0/8"),
            ("2001:db8::1/32", "expected 2001:db8::/32"),
        ] {
            assert!(text.parse::<Prefix>().unwrap_err().contains(message), "{text}");
        }
    }

    #[test]
    fn an_address_is_in_its_prefixes() {
        let (address, prefix) = Prefix::with_address("10.1.2.3/16").unwrap();
        assert_eq!((address.to_string(), prefix.to_string()), ("10.1.2.3".into(), "10.1.0.0/16".into()));
        assert!(prefix.has("10.1.255.255".parse().unwrap()));
        assert!(!prefix.has("10.2.0.0".parse().unwrap()) && !prefix.has("::a01:0".parse().unwrap()));
        assert!(prefix.covers(&"10.1.2.0/24".parse().unwrap()) && !prefix.covers(&"10.0.0.0/8".parse().unwrap()));
        assert!(!prefix.covers(&"::/64".parse().unwrap()));
        assert_eq!(Prefix::of(address).to_string(), "10.1.2.3/32");
    }
}
