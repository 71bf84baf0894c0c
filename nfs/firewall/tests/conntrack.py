"""Forwards frames through nftables' connection tracking, in the network namespace that it is started in (conntrack.rs).

Reads lines "SIDE HEX": the side that sends, a or b, and a frame. Prints "next" or "dropped" for each.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../forward/tests/support"))
import kernel  # noqa: E402

# Strict as our defaults are; numbers out of the window are not what is compared.
SYSCTL = {
    "net/netfilter/nf_conntrack_tcp_loose": 0,
    "net/netfilter/nf_conntrack_tcp_be_liberal": 1,
    "net/netfilter/nf_conntrack_checksum": 0,
}
RULES = f"""
table inet fw {{
  chain forward {{
    type filter hook forward priority 0; policy drop;
    udp dport {kernel.MARKER_PORT} accept
    ct state invalid drop
    ct state established,related accept
    tcp dport 80 accept
    udp dport 53 accept
    icmp type echo-request accept
    icmpv6 type echo-request accept
  }}
}}
"""

kernel.start(RULES, SYSCTL)
for line in sys.stdin:
    side, text = line.split()
    frame = bytes.fromhex(text)
    comes = any(kernel.plain(got).startswith(kernel.plain(frame)) for got in kernel.forwarded(side, frame))
    print("next" if comes else "dropped", flush=True)
