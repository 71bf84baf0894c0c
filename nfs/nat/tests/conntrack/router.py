"""Forwards frames through nftables' source NAT, in the network namespace that it is started in (exchange.rs): a is
inside, b outside, and packets leave there as the external address.

Reads lines "SIDE HEX": the side that sends, a or b, and a frame. Prints for each the IP packet that comes out on the other
side in hexadecimal, or "dropped". "set NAME SECONDS" sets a time-out of connection tracking and prints "done".
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../forward/tests/support"))
import kernel  # noqa: E402

# More hosts on both sides; and an external address that is nobody's, so that what no mapping takes goes nowhere.
LINKS = "route add blackhole 198.51.100.1\n" + "".join(
    f"neigh add 10.{net}.0.{host} lladdr 02:00:00:00:00:01 dev {dev} nud permanent\n"
    for net, dev in ((1, "a1"), (2, "b1"))
    for host in range(11, 20)
)
# Numbers out of the window are not what is compared.
SYSCTL = {
    "net/ipv4/conf/all/rp_filter": 0,
    "net/ipv4/conf/a1/rp_filter": 0,
    "net/ipv4/conf/b1/rp_filter": 0,
    "net/netfilter/nf_conntrack_tcp_loose": 1,
    "net/netfilter/nf_conntrack_tcp_be_liberal": 1,
}
RULES = f"""
table ip nat {{
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    oifname b1 ip saddr 10.1.0.0/16 snat to 198.51.100.1
  }}
}}
table inet fw {{
  chain forward {{
    type filter hook forward priority 0; policy drop;
    udp dport {kernel.MARKER_PORT} accept
    ct state invalid drop
    ct state established,related accept
    iifname a1 accept
  }}
}}
"""
IPV4 = b"\x08\x00"

kernel.start(RULES, SYSCTL, LINKS)
for line in sys.stdin:
    side, text, *more = line.split()
    if side == "set":
        with open(f"/proc/sys/net/netfilter/nf_conntrack_{text}", "w") as f:
            f.write(more[0])
        print("done", flush=True)
        continue
    came = [got[14:] for got in kernel.forwarded(side, bytes.fromhex(text)) if got[12:14] == IPV4]
    if len(came) > 1:
        sys.exit(f"{len(came)} packets came of one")
    print(came[0].hex() if came else "dropped", flush=True)
