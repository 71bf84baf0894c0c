"""Forwards frames through nftables' connection tracking, in the network namespace that it is started in (conntrack.rs).

Reads lines "SIDE HEX": the side that sends, a or b, and a frame. Prints "next" or "dropped" for each.
"""
import socket
import subprocess
import sys
import time

SETUP = """
link set lo up
link add a0 type veth peer name a1
link add b0 type veth peer name b1
link set a1 address 02:00:00:00:00:02
link set b1 address 02:00:00:00:00:02
link set a0 up
link set b0 up
link set a1 up
link set b1 up
addr add 10.1.0.1/16 dev a1
addr add 10.2.0.1/16 dev b1
addr add 2001:db8:1::1/64 dev a1 nodad
addr add 2001:db8:2::1/64 dev b1 nodad
neigh add 10.1.0.10 lladdr 02:00:00:00:00:01 dev a1 nud permanent
neigh add 10.2.0.10 lladdr 02:00:00:00:00:01 dev b1 nud permanent
neigh add 2001:db8:1::10 lladdr 02:00:00:00:00:01 dev a1 nud permanent
neigh add 2001:db8:2::10 lladdr 02:00:00:00:00:01 dev b1 nud permanent
"""
# Strict as our defaults are; numbers out of the window are not what is compared.
SYSCTL = {
    "net/ipv4/ip_forward": 1,
    "net/ipv6/conf/all/forwarding": 1,
    "net/netfilter/nf_conntrack_tcp_loose": 0,
    "net/netfilter/nf_conntrack_tcp_be_liberal": 1,
    "net/netfilter/nf_conntrack_checksum": 0,
}
RULES = """
table inet fw {
  chain forward {
    type filter hook forward priority 0; policy drop;
    ct state invalid drop
    ct state established,related accept
    tcp dport 80 accept
    udp dport 53 accept
    icmp type echo-request accept
    icmpv6 type echo-request accept
  }
}
"""
PATIENCE_S = 0.12


def plain(frame):
    """What forwarding leaves: without the Ethernet header, TTL and IPv4 header checksum."""
    packet = bytearray(frame[14:])
    if packet[0] >> 4 == 4:
        packet[8] = packet[10] = packet[11] = 0
    else:
        packet[7] = 0
    return bytes(packet)


def opened(interface):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.bind((interface, 0))
    s.settimeout(PATIENCE_S)
    return s


def comes(s, frame):
    """Whether the frame is forwarded to this socket."""
    wanted, until = plain(frame), time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        try:
            got, (_, _, kind, _, _) = s.recvfrom(65535)
        except TimeoutError:
            return False
        # Not what this program sent itself; behind a short packet is padding.
        if kind != socket.PACKET_OUTGOING and len(got) > 34 and plain(got)[: len(wanted)] == wanted:
            return True
    return False


subprocess.run(["ip", "-batch", "-"], input=SETUP, text=True, check=True)
# The tables first: connection tracking is there only when somebody asks for it.
subprocess.run(["nft", "-f", "-"], input=RULES, text=True, check=True)
for name, value in SYSCTL.items():
    with open(f"/proc/sys/{name}", "w") as f:
        f.write(str(value))
time.sleep(0.3)
sockets = {"a": opened("a0"), "b": opened("b0")}
for line in sys.stdin:
    side, text = line.split()
    frame = bytes.fromhex(text)
    sockets[side].send(frame)
    print("next" if comes(sockets["b" if side == "a" else "a"], frame) else "dropped", flush=True)
