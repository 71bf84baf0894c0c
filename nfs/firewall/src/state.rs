//! What a running `firewall` keeps: the compiled rules, the keys of the burst at hand, and connections if it is stateful.

use crate::config::{Args, Fragments, Policy};
use crate::connections::Connections;
use crate::rules::{Action, Ports, Prefix, Rule};
use chainline_dpdk::tables::{self, Acl, FieldDef, FieldKind, FieldValue, MAX_PRIORITY};
use chainline_nf::{Counter, Env, Error, MAX_BURST, Reason, Verdict};
use chainline_reload::Reload;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::path::Path;

/// Protocol and padding, addresses, ports, detail and padding.
pub(crate) const KEY4: usize = 4 + 8 + 4 + 4;
/// As [`KEY4`].
pub(crate) const KEY6: usize = 4 + 32 + 4 + 4;

/// Rules as `rte_acl` sees them at most, after lists of ports were multiplied out.
const MAX_ACL_RULES: usize = 1 << 22;

/// Both IP versions' rules.
pub(crate) struct Tables {
    pub v4: Acl,
    pub v6: Acl,
}

/// Packets of one IP version that wait for their look-up.
pub(crate) struct Pending<const N: usize> {
    pub keys: Box<[[u8; N]; MAX_BURST]>,
    /// Their places in the burst.
    pub at: [u8; MAX_BURST],
    pub len: usize,
}

const _: () = assert!(MAX_BURST <= 256, "places in a burst are bytes");

impl<const N: usize> Pending<N> {
    fn new() -> Self {
        Self { keys: Box::new([[0; N]; MAX_BURST]), at: [0; MAX_BURST], len: 0 }
    }

    #[inline]
    pub fn push(&mut self, at: usize, key: [u8; N]) {
        if let (Some(k), Some(a)) = (self.keys.get_mut(self.len), self.at.get_mut(self.len)) {
            (*k, *a) = (key, at as u8);
            self.len += 1;
        }
    }
}

/// A running firewall.
pub struct State {
    pub(crate) rules: Rules,
    /// The stateful mode.
    pub(crate) connections: Option<Box<Connections>>,
    pub(crate) reload: Reload<Ruleset>,
}

/// What a look-up leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub verdict: Verdict,
    pub counter: Counter,
}

/// Compiled rules.
pub(crate) struct Ruleset {
    pub tables: Tables,
    /// For later fragments; absent where they are denied.
    pub fragment_tables: Option<Tables>,
    /// By what a look-up returns: 0 is the default, then the rules in order.
    pub outcomes: Vec<Outcome>,
    /// Whether a rule asks for TCP flags or ICMP types.
    pub detail: bool,
}

/// The rules in force, counters, verdicts, keys.
pub(crate) struct Rules {
    pub set: Ruleset,
    pub fragments: Counter,
    pub non_ip: Counter,
    pub non_ip_verdict: Verdict,
    pub malformed: Reason,
    pub fragment_denied: Reason,
    pub pending4: Pending<KEY4>,
    pub pending6: Pending<KEY6>,
    pub results: Box<[u32; MAX_BURST]>,
    /// In the stateful mode, what look-ups returned, by the packets' places in the burst.
    pub asked: Box<[u32; MAX_BURST]>,
}

impl State {
    pub(crate) fn new(args: &Args, env: &mut Env<'_>) -> Result<Self, Error> {
        let connections = match &args.stateful {
            Some(stateful) => Some(Box::new(Connections::new(stateful, env)?)),
            None => None,
        };
        let path = args.rules.as_ref().map(|file| env.path(file));
        let mut reload = Reload::new(env, "rules", path.clone(), args.reload_s);
        // Last, as the rules' counters are as many as there are rules.
        let (rules, tally) = Rules::new(args, path.as_deref(), env)?;
        let args = args.clone();
        reload.start(move || {
            let policy = args.policy(path.as_deref())?;
            Ruleset::new(&policy, args.fragments, &tally)
        })?;
        Ok(Self { rules, connections, reload })
    }
}

/// Verdicts, and what counts them.
struct Tally {
    default: Counter,
    by_default: Reason,
    denied: Reason,
    /// The counters of the rules that were there at the start. Whoever is there again counts on where it was.
    known: HashMap<Rule, Counter>,
    /// Of all others.
    later: Counter,
}

impl Tally {
    fn outcome(&self, rule: &Rule) -> Outcome {
        let counter = self.known.get(&rule.anywhere()).copied().unwrap_or(self.later);
        Outcome { verdict: verdict(rule.action, self.denied), counter }
    }
}

fn verdict(action: Action, reason: Reason) -> Verdict {
    if action == Action::Allow { Verdict::NEXT } else { Verdict::drop(reason) }
}

impl Rules {
    fn new(args: &Args, path: Option<&Path>, env: &mut Env<'_>) -> Result<(Self, Tally), Error> {
        let policy = args.policy(path)?;
        let (denied, by_default) = (env.drop_reason("denied"), env.drop_reason("denied_by_default"));
        let (malformed, fragment_denied) = (env.drop_reason("malformed"), env.drop_reason("fragment"));
        let non_ip_verdict = verdict(args.non_ip, env.drop_reason("non_ip"));
        let fragments = env.counter("fragments", "packets", "fragments without ports");
        let non_ip = env.counter("non_ip", "packets", "frames that are neither IPv4 nor IPv6");
        let later = env.counter("later_rules", "packets", "hits of rules that the file did not have at the start");
        let default = env.counter("default", "packets", "packets that no rule matched");
        let mut known = HashMap::new();
        for (i, rule) in policy.rules.iter().enumerate() {
            let counter = env.counter(format!("rule_{}", i + 1), "packets", &rule.name);
            // Of equal rules the first takes all.
            known.entry(rule.anywhere()).or_insert(counter);
        }
        let tally = Tally { default, by_default, denied, known, later };
        let rules = Self {
            set: Ruleset::new(&policy, args.fragments, &tally)?,
            fragments,
            non_ip,
            non_ip_verdict,
            malformed,
            fragment_denied,
            pending4: Pending::new(),
            pending6: Pending::new(),
            results: Box::new([0; MAX_BURST]),
            asked: Box::new([0; MAX_BURST]),
        };
        Ok((rules, tally))
    }
}

impl Ruleset {
    fn new(policy: &Policy, fragments: Fragments, tally: &Tally) -> Result<Self, Error> {
        let default = Outcome { verdict: verdict(policy.default, tally.by_default), counter: tally.default };
        let outcomes = std::iter::once(default).chain(policy.rules.iter().map(|r| tally.outcome(r))).collect();
        let detail = policy.rules.iter().any(|r| r.detail.mask != 0);
        let numbered = || (1u32..).filter_map(NonZeroU32::new).zip(&policy.rules);
        let tables = compile(numbered(), detail)?;
        let fragment_tables = match fragments {
            Fragments::Deny => None,
            // Who asks for ports cannot be answered. An allowing rule gets the benefit of the doubt: the first
            // fragment was judged in full, and without it the others are worth nothing (RFC 1858 §2.1). A denying
            // one would else deny every fragment.
            Fragments::Match => {
                let bare = |r: &Rule| Rule {
                    src_ports: Vec::new(),
                    dst_ports: Vec::new(),
                    detail: Default::default(),
                    ..r.clone()
                };
                let rules: Vec<_> = numbered()
                    .filter(|(_, r)| r.action == Action::Allow || !r.needs_l4())
                    .map(|(n, r)| (n, bare(r)))
                    .collect();
                Some(compile(rules.iter().map(|(n, r)| (*n, r)), false)?)
            }
        };
        Ok(Self { tables, fragment_tables, outcomes, detail })
    }
}

fn compile<'a>(rules: impl Iterator<Item = (NonZeroU32, &'a Rule)> + Clone, detail: bool) -> Result<Tables, Error> {
    let build = |words: usize| {
        let mut compiled = Vec::new();
        for (number, rule) in rules.clone() {
            expand(number, rule, words, detail, &mut compiled);
            if compiled.len() > MAX_ACL_RULES {
                let why = "lists of ports multiply out to more than";
                return Err(Error::Library(format!("firewall: {why} {MAX_ACL_RULES} rules")));
            }
        }
        Acl::build(&layout(words, detail), &compiled).map_err(|e| Error::Library(format!("firewall: {e}")))
    };
    Ok(Tables { v4: build(1)?, v6: build(4)? })
}

/// The key: protocol, addresses of `words` times four bytes, ports, detail.
fn layout(words: usize, detail: bool) -> Vec<FieldDef> {
    let mut defs = Vec::new();
    let mut field = |kind, size, input_index, offset| {
        let field_index = defs.len() as u8;
        defs.push(FieldDef { kind, size, field_index, input_index, offset });
    };
    field(FieldKind::Bitmask, 1, 0, 0);
    let words = 2 * words as u8;
    for w in 1..=words {
        field(FieldKind::Mask, 4, w, 4 * u32::from(w));
    }
    let (ports, at) = (words + 1, 4 * (u32::from(words) + 1));
    field(FieldKind::Range, 2, ports, at);
    field(FieldKind::Range, 2, ports, at + 2);
    if detail {
        field(FieldKind::Bitmask, 4, ports + 1, at + 4);
    }
    defs
}

/// Adds what `rule` is in a table of addresses of `words` words: nothing if it is of the other IP version, one rule
/// for each pair of port ranges otherwise.
fn expand(number: NonZeroU32, rule: &Rule, words: usize, detail: bool, out: &mut Vec<tables::Rule>) {
    let (Some(src), Some(dst)) = (address(rule.src, words), address(rule.dst, words)) else { return };
    const ALL: &[Ports] = &[(0, u16::MAX)];
    let or_all = |list: &'_ [Ports]| if list.is_empty() { ALL.to_vec() } else { list.to_vec() };
    for src_ports in or_all(&rule.src_ports) {
        for dst_ports in or_all(&rule.dst_ports) {
            let value = |value: u64, mask_range: u64| FieldValue { value, mask_range };
            let mut fields = vec![value(rule.proto.value.into(), rule.proto.mask.into())];
            fields.extend(src.iter().chain(&dst));
            fields.extend([src_ports, dst_ports].map(|(low, high)| value(low.into(), high.into())));
            if detail {
                // The upper half of a field of four bytes, since groups are filled up.
                let upper = |v: u16| u64::from(v) << 16;
                fields.push(value(upper(rule.detail.value), upper(rule.detail.mask)));
            }
            let number_from_top = number.get() as i32 - 1;
            out.push(tables::Rule {
                priority: MAX_PRIORITY - number_from_top,
                userdata: number,
                category_mask: 1,
                fields,
            });
        }
    }
}

/// A prefix as fields of 32 bits; `None` if it is of the other IP version.
fn address(prefix: Prefix, words: usize) -> Option<Vec<FieldValue>> {
    let (bits, len) = match (prefix, words) {
        (Prefix::Any, _) => (0, 0),
        (Prefix::V4(bits, len), 1) => (u128::from(bits) << 96, len),
        (Prefix::V6(bits, len), 4) => (bits, len),
        _ => return None,
    };
    let word = |w: usize| {
        let value = (bits >> (96 - 32 * w)) as u32;
        let len = usize::from(len).saturating_sub(32 * w).min(32);
        FieldValue { value: value.into(), mask_range: len as u64 }
    };
    Some((0..words).map(word).collect())
}
