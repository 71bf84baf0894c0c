"""Forwards frames through nftables' connection tracking, in the network namespace that it is started in (conntrack.rs).

Reads lines "SIDE HEX": the side that sends, a or b, and a frame. Prints "next" or "dropped" for each. A marker goes behind
each frame, which the rules let through untracked: on one core the kernel keeps their order, so a frame that has not come
when its marker does was dropped. How long either takes does not matter.
"""
import os
import socket
import struct
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
table inet marks {
  chain prerouting {
    type filter hook prerouting priority raw;
    udp dport 65533 notrack
  }
}
table inet fw {
  chain forward {
    type filter hook forward priority 0; policy drop;
    udp dport 65533 accept
    ct state invalid drop
    ct state established,related accept
    tcp dport 80 accept
    udp dport 53 accept
    icmp type echo-request accept
    icmpv6 type echo-request accept
  }
}
"""
MARKER_PORT = 65533
# Bytes of a marker's number, which ends it.
NUMBER = 8
HOSTS = {"a": "10.1.0.10", "b": "10.2.0.10"}
# Nothing takes so long; whoever waits longer has found a mistake in here.
FAILSAFE_S = 30.0


def plain(frame):
    """What forwarding leaves: without the Ethernet header, TTL and IPv4 header checksum."""
    packet = bytearray(frame[14:])
    if packet[0] >> 4 == 4:
        packet[8] = packet[10] = packet[11] = 0
    else:
        packet[7] = 0
    return bytes(packet)


def marker(side, number):
    """The frame behind the frame with this number, as `side` sends it."""
    addresses = [socket.inet_aton(HOSTS[x]) for x in (side, other(side))]
    head = bytearray(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 36, 0, 0, 64, 17, 0, *addresses))
    total = sum(struct.unpack("!10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    struct.pack_into("!H", head, 10, ~total & 0xFFFF)
    ethernet = bytes.fromhex("020000000002020000000001") + b"\x08\x00"
    # A UDP checksum of 0 is none.
    return ethernet + head + struct.pack("!HHHHQ", 9, MARKER_PORT, 16, 0, number)


def other(side):
    return "b" if side == "a" else "a"


def opened(interface):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    s.bind((interface, 0))
    return s


def received(s, patience):
    """The next frame that was forwarded to this socket; none within `patience`."""
    s.settimeout(patience)
    while True:
        try:
            got, (_, _, kind, _, _) = s.recvfrom(65535)
        except TimeoutError:
            return None
        # Not what this program sent itself.
        if kind != socket.PACKET_OUTGOING and len(got) > 34:
            return plain(got)


def comes(side, frame, number):
    """Whether a frame that `side` sends comes out on the other side."""
    mark, found = marker(side, number), False
    sockets[side].send(frame)
    sockets[side].send(mark)
    while True:
        got = received(sockets[other(side)], FAILSAFE_S)
        if got is None:
            sys.exit("a marker was lost")
        # Behind a short packet is padding.
        if got.startswith(plain(mark)):
            return found
        found |= got.startswith(plain(frame))


# One core: packets between interfaces wait in a queue of the core that sent them.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
subprocess.run(["ip", "-batch", "-"], input=SETUP, text=True, check=True)
# The tables first: connection tracking is there only when somebody asks for it.
subprocess.run(["nft", "-f", "-"], input=RULES, text=True, check=True)
for name, value in SYSCTL.items():
    with open(f"/proc/sys/{name}", "w") as f:
        f.write(str(value))
sockets = {"a": opened("a0"), "b": opened("b0")}
number = 0
# Links take a while until they carry anything. Any marker will do: the first may come after the second was sent.
for side in sockets:
    began = time.monotonic()
    while True:
        number += 1
        sockets[side].send(marker(side, number))
        got = received(sockets[other(side)], 0.05)
        if got is not None and got.startswith(plain(marker(side, number))[:-NUMBER]):
            break
        if time.monotonic() - began > FAILSAFE_S:
            sys.exit(f"nothing comes through from {side}")
for line in sys.stdin:
    side, text = line.split()
    number += 1
    print("next" if comes(side, bytes.fromhex(text), number) else "dropped", flush=True)
