//! What a running `l3fwd` keeps: the tables, the next hops, and the addresses of the burst at hand.

use crate::config::{Args, NonIp, Rewrite};
use crate::flows::{Exact, Flows, Waiting};
use crate::routes::{self, Hops};
use chainline_nf::{Counter, Env, Error, Reason, Verdict};
use chainline_reload::Reload;
use chainline_routes::{Pending, Tables};
use std::path::PathBuf;

/// Route tables, next hops, addresses.
pub struct State {
    pub(crate) fib: Fib,
    pub(crate) reload: Reload<Fib>,
    pub(crate) waiting4: Waiting<16>,
    pub(crate) waiting6: Waiting<48>,
    // Noted is where the layer-3 headers start; at most 22.
    pub(crate) pending4: Pending<u32, u8>,
    pub(crate) pending6: Pending<[u8; 16], u8>,
    pub(crate) non_ip_verdict: Verdict,
    pub(crate) forwarded: Counter,
    pub(crate) exact: Counter,
    pub(crate) non_ip: Counter,
    pub(crate) reasons: Reasons,
}

/// What follows from arguments and files.
pub(crate) struct Fib {
    tables: Tables,
    /// Absent where no flow has a next hop of its own.
    pub exact: Option<Exact>,
    pub hops: Vec<Rewrite>,
    routes: (usize, usize),
    flows: (usize, usize),
}

/// Where the files are.
pub(crate) struct Files {
    pub routes: Option<PathBuf>,
    pub flows: Option<PathBuf>,
}

impl Files {
    pub fn of(args: &Args, env: &Env<'_>) -> Self {
        let path = |file: &Option<PathBuf>| file.as_ref().map(|file| env.path(file));
        Self { routes: path(&args.routes), flows: path(&args.flows) }
    }

    /// Reads them, and what the arguments say besides.
    pub fn read(&self, args: &Args) -> Result<(chainline_routes::Routes, Flows, Hops), Error> {
        let nothing = args.routes_inline.is_empty() && args.flows_inline.is_empty();
        if self.routes.is_none() && self.flows.is_none() && nothing {
            return Err(Error::Args(
                "args: expected at least one of routes, routes_inline, flows, flows_inline".into(),
            ));
        }
        let mut hops = Hops::new(args.rewrites()?);
        let routes = routes::read(args, self.routes.as_deref(), &mut hops)?;
        let flows = Flows::read(args, self.flows.as_deref(), &mut hops)?;
        Ok((routes, flows, hops))
    }
}

impl Fib {
    /// Reads routes and flows, and fills the tables.
    fn read(args: &Args, files: &Files) -> Result<Self, Error> {
        let (routes, flows, hops) = files.read(args)?;
        let exact = if flows.len() == (0, 0) { None } else { Some(Exact::new(&flows)?) };
        Ok(Self {
            tables: Tables::new(&routes, hops.all.len()).map_err(|e| Error::Library(format!("l3fwd: {e}")))?,
            exact,
            hops: hops.all,
            routes: (routes.v4.len(), routes.v6.len()),
            flows: flows.len(),
        })
    }
}

pub(crate) struct Reasons {
    pub malformed: Reason,
    pub bad_checksum: Reason,
    pub ttl_expired: Reason,
    pub no_route: Reason,
}

impl State {
    pub(crate) fn new(args: &Args, env: &mut Env<'_>) -> Result<Self, Error> {
        let files = Files::of(args, env);
        let watched = [&files.routes, &files.flows].into_iter().flatten().cloned();
        let mut reload = Reload::new(env, "routes", watched, args.reload_s);
        let fib = Fib::read(args, &files)?;
        let args = args.clone();
        let non_ip = args.non_ip;
        reload.start(move || Fib::read(&args, &files))?;
        let reasons = Reasons {
            malformed: env.drop_reason("malformed"),
            bad_checksum: env.drop_reason("bad_checksum"),
            ttl_expired: env.drop_reason("ttl_expired"),
            no_route: env.drop_reason("no_route"),
        };
        let non_ip_reason = env.drop_reason("non_ip");
        Ok(Self {
            fib,
            reload,
            waiting4: Waiting::new(),
            waiting6: Waiting::new(),
            pending4: Pending::new(0, 0),
            pending6: Pending::new([0; 16], 0),
            non_ip_verdict: if non_ip == NonIp::Allow { Verdict::NEXT } else { Verdict::drop(non_ip_reason) },
            forwarded: env.counter("forwarded", "packets", "packets sent to a next hop"),
            exact: env.counter("exact", "packets", "of these, packets of flows with a next hop of their own"),
            non_ip: env.counter("non_ip", "packets", "frames that are neither IPv4 nor IPv6"),
            reasons,
        })
    }

    /// Looks the pending packets' next hops up.
    #[inline]
    pub(crate) fn look_up(&mut self) {
        self.fib.tables.look_up(&mut self.pending4, &mut self.pending6);
    }

    pub(crate) fn describe(&self) -> String {
        let Fib { routes, flows, hops, .. } = &self.fib;
        let fault = self.reload.words().unwrap_or_default();
        let flows = match flows {
            (0, 0) => String::new(),
            (v4, v6) => format!(", {v4} IPv4 and {v6} IPv6 flows"),
        };
        format!("{fault}{} IPv4 and {} IPv6 routes{flows}, {} next hops", routes.0, routes.1, hops.len())
    }
}
