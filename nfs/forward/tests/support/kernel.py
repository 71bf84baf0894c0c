"""Frames through the kernel of the network namespace that this is started in: a router between the sides a and b.

A marker goes behind each frame, which the rules must let through untracked: on one core the kernel keeps their order, so
a frame that has not come when its marker does was dropped. How long either takes does not matter.
"""
import os
import socket
import struct
import subprocess
import sys
import time

LINKS = """
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
SYSCTL = {
    "net/ipv4/ip_forward": 1,
    "net/ipv6/conf/all/forwarding": 1,
}
MARKER_PORT = 65533
MARKS = f"""
table inet marks {{
  chain prerouting {{
    type filter hook prerouting priority raw;
    udp dport {MARKER_PORT} notrack
  }}
}}
"""
HOSTS = {"a": "10.1.0.10", "b": "10.2.0.10"}
# Nothing takes so long; whoever waits longer has found a mistake in here.
FAILSAFE_S = 30.0

sockets = {}
number = 0


def other(side):
    return "b" if side == "a" else "a"


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
    return s


def received(side, patience):
    """The next frame that was forwarded to a side; none within `patience`."""
    sockets[side].settimeout(patience)
    while True:
        try:
            got, (_, _, kind, _, _) = sockets[side].recvfrom(65535)
        except TimeoutError:
            return None
        # Not what this program sent itself.
        if kind != socket.PACKET_OUTGOING and len(got) > 34:
            return got


def forwarded(side, frame):
    """Sends a frame from a side, and returns all that the other side gets until the marker comes."""
    global number
    number += 1
    mark, found = plain(marker(side, number)), []
    sockets[side].send(frame)
    sockets[side].send(marker(side, number))
    while True:
        got = received(other(side), FAILSAFE_S)
        if got is None:
            sys.exit("a marker was lost")
        # Behind a short packet is padding.
        if plain(got).startswith(mark):
            return found
        found.append(got)


def start(rules, sysctl, links=""):
    """Makes the router; `rules` are nftables'."""
    global number
    # One core: packets between interfaces wait in a queue of the core that sent them.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    subprocess.run(["ip", "-batch", "-"], input=LINKS + links, text=True, check=True)
    # The tables first: connection tracking is there only when somebody asks for it.
    subprocess.run(["nft", "-f", "-"], input=MARKS + rules, text=True, check=True)
    for name, value in {**SYSCTL, **sysctl}.items():
        with open(f"/proc/sys/{name}", "w") as f:
            f.write(str(value))
    sockets.update(a=opened("a0"), b=opened("b0"))
    # Links take a while until they carry anything.
    for side in sockets:
        began = time.monotonic()
        while True:
            number += 1
            mark = plain(marker(side, number))
            sockets[side].send(marker(side, number))
            # Those before this one may have been late.
            while (got := received(other(side), 0.05)) is not None and not plain(got).startswith(mark):
                pass
            if got is not None:
                break
            if time.monotonic() - began > FAILSAFE_S:
                sys.exit(f"nothing comes through from {side}")
