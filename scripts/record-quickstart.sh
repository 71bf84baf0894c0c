#!/usr/bin/env bash
# Records examples/captures/quickstart.pcap: pings, HTTP downloads and DNS queries of real programs between two
# network namespaces, over IPv4 and IPv6, taken with tcpdump. Needs root; leaves nothing behind but the capture.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=scripts/netns-lab.sh
. scripts/netns-lab.sh

out=examples/captures/quickstart.pcap
if [[ $(id -u) -ne 0 ]]; then
    echo "record-quickstart: making network namespaces needs root; $out is committed, so this is needed only to renew it" >&2
    exit 1
fi
for tool in ip tcpdump curl dig ping dnsmasq python3 ethtool; do
    command -v "$tool" >/dev/null || { echo "record-quickstart: no $tool: run make deps" >&2; exit 1; }
done

lab_up rec
# The kernel routes between the two here, in a namespace of its own, so that the host's own routing stays as it is.
gate=cl-gate-rec
ip netns add "$gate"
trap 'ip netns del "$gate" 2>/dev/null || true; lab_down' EXIT
ip link set "$lab_if_a" netns "$gate"
ip link set "$lab_if_b" netns "$gate"
ip netns exec "$gate" sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
for side in "$lab_if_a $lab_gate_a_mac 10.10.0.1/24 2001:db8:a::1/64" \
    "$lab_if_b $lab_gate_b_mac 10.20.0.1/24 2001:db8:b::1/64"; do
    read -r dev mac addr4 addr6 <<<"$side"
    ip -n "$gate" link set "$dev" address "$mac"
    ip netns exec "$gate" sysctl -qw "net.ipv6.conf.$dev.accept_dad=0" "net.ipv6.conf.$dev.disable_ipv6=0"
    ip -n "$gate" link set "$dev" up
    ip -n "$gate" addr add "$addr4" dev "$dev"
    ip -n "$gate" addr add "$addr6" dev "$dev" nodad
done
lab_services

ip netns exec "$gate" tcpdump -i "$lab_if_a" -s 0 -U --immediate-mode -w "$lab_dir/out.pcap" 2>"$lab_dir/tcpdump.log" &
tcpdump_pid=$!
lab_pids+=("$tcpdump_pid")
lab_wait_for tcpdump grep -q "listening on" "$lab_dir/tcpdump.log"

lab_in_client ping -q -c 15 -i 0.05 10.20.0.2
lab_in_client ping -q -c 15 -i 0.05 2001:db8:b::2
# Large enough to be fragmented, and a time exceeded from the router.
lab_in_client ping -c 2 -i 0.2 -s 2500 10.20.0.2
lab_in_client ping -c 1 -t 1 10.20.0.2 || true
for server in 10.20.0.2 2001:db8:b::2; do
    for type in A AAAA; do lab_in_client dig +short "@$server" www.example.net "$type"; done
    for host in {1..10}; do lab_in_client dig +short "@$server" "host$host.www.example.net"; done
done
lab_in_client dig +tcp +short @10.20.0.2 www.example.net
lab_in_client dig +short @2001:db8:b::2 chain.example.net TXT
lab_in_client dig +short @10.20.0.2 missing.example.net
lab_in_client curl --silent --output /dev/null http://10.20.0.2/small.txt &
at_once=$!
for url in http://10.20.0.2/small.txt "http://[2001:db8:b::2]/small.txt" http://10.20.0.2/missing.txt; do
    lab_in_client curl --silent --show-error --output /dev/null --write-out '%{url} %{http_code} %{size_download} bytes\n' "$url"
done
wait "$at_once"
# A port nobody listens on: SYN and RST.
lab_in_client curl --silent --max-time 2 --output /dev/null http://10.20.0.2:81/ || true

kill -INT "$tcpdump_pid"
wait "$tcpdump_pid" || true
# No addresses of the recording host are in it, only those of netns-lab.sh. Frames in the order of their times.
install -D -m 644 "$lab_dir/out.pcap" "$out"
tcpdump -nr "$out" 2>/dev/null | awk 'END {print NR " packets"}'
stat -c '%n: %s bytes' "$out"
