//! How many errors are sent: a token bucket (RFC 4443 §2.4(f), RFC 1812 §4.3.2.8).

use crate::config::IcmpErrors;

/// Tokens are counted in billionths, so that no rate is rounded.
const TOKEN: u64 = 1_000_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    per_s: u64,
    most: u64,
    credit: u64,
    last_ns: u64,
}

impl Bucket {
    /// Full.
    pub fn new(errors: IcmpErrors) -> Self {
        let most = if errors.per_s == 0 { 0 } else { u64::from(errors.burst) * TOKEN };
        Self { per_s: errors.per_s.into(), most, credit: most, last_ns: 0 }
    }

    /// Takes a token; `false` when there is none.
    pub fn take(&mut self, now_ns: u64) -> bool {
        let elapsed = now_ns.saturating_sub(self.last_ns);
        self.last_ns = self.last_ns.max(now_ns);
        self.credit = self.credit.saturating_add(elapsed.saturating_mul(self.per_s)).min(self.most);
        let there = self.credit >= TOKEN;
        if there {
            self.credit -= TOKEN;
        }
        there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_the_rate() {
        let mut bucket = Bucket::new(IcmpErrors { per_s: 3, burst: 2 });
        let taken = |bucket: &mut Bucket, now_ns| (0..10).filter(|_| bucket.take(now_ns)).count();
        assert_eq!(taken(&mut bucket, 5), 2);
        assert_eq!(taken(&mut bucket, 333_333_338), 0);
        assert_eq!(taken(&mut bucket, 333_333_339), 1);
        // Time that goes back stands still.
        assert_eq!(taken(&mut bucket, 0), 0);
        assert_eq!(taken(&mut bucket, u64::MAX), 2);
        let mut none = Bucket::new(IcmpErrors { per_s: 0, burst: 2 });
        assert_eq!(taken(&mut none, u64::MAX), 0);
    }

    #[test]
    fn in_the_long_run_the_rate_is_exact() {
        let mut bucket = Bucket::new(IcmpErrors { per_s: 700, burst: 2 });
        let taken = (1..=30_000u64).filter(|ms| bucket.take(ms * 1_000_000)).count();
        assert!((20_995..=21_002).contains(&taken), "{taken}");
    }
}
