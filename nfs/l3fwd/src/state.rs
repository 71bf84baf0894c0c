//! What a running `l3fwd` keeps: the tables, the next hops, and the addresses of the burst at hand.

use crate::config::{Args, NonIp, Rewrite};
use crate::routes;
use chainline_nf::{Counter, Env, Error, Reason, Verdict};
use chainline_reload::Reload;
use chainline_routes::{Pending, Tables};
use std::path::Path;

/// Route tables, next hops, addresses.
pub struct State {
    pub(crate) fib: Fib,
    pub(crate) reload: Reload<Fib>,
    // Noted is where the layer-3 headers start; at most 22.
    pub(crate) pending4: Pending<u32, u8>,
    pub(crate) pending6: Pending<[u8; 16], u8>,
    pub(crate) non_ip_verdict: Verdict,
    pub(crate) forwarded: Counter,
    pub(crate) non_ip: Counter,
    pub(crate) reasons: Reasons,
}

/// What follows from arguments and files.
pub(crate) struct Fib {
    tables: Tables,
    pub hops: Vec<Rewrite>,
    routes: (usize, usize),
}

impl Fib {
    /// Reads the routes and fills the tables. `path` is where the file is, if there is one.
    fn read(args: &Args, path: Option<&Path>) -> Result<Self, Error> {
        let (routes, hops) = routes::read(args, path)?;
        Ok(Self {
            tables: Tables::new(&routes, hops.all.len()).map_err(|e| Error::Library(format!("l3fwd: {e}")))?,
            hops: hops.all,
            routes: (routes.v4.len(), routes.v6.len()),
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
        let path = args.routes.as_ref().map(|file| env.path(file));
        let mut reload = Reload::new(env, "routes", path.clone(), args.reload_s);
        let fib = Fib::read(args, path.as_deref())?;
        let args = args.clone();
        let non_ip = args.non_ip;
        reload.start(move || Fib::read(&args, path.as_deref()))?;
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
            pending4: Pending::new(0, 0),
            pending6: Pending::new([0; 16], 0),
            non_ip_verdict: if non_ip == NonIp::Allow { Verdict::NEXT } else { Verdict::drop(non_ip_reason) },
            forwarded: env.counter("forwarded", "packets", "packets sent to a next hop"),
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
        let Fib { routes, hops, .. } = &self.fib;
        let fault = self.reload.words().unwrap_or_default();
        format!("{fault}{} IPv4 and {} IPv6 routes, {} next hops", routes.0, routes.1, hops.len())
    }
}
