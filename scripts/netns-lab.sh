# Two network namespaces with real services in them, for scripts that source this file (bash, root).
#
#   client (10.10.0.2, 2001:db8:a::2)          server (10.20.0.2, 2001:db8:b::2)
#          eth0 ─ cl-c<tag>   …host or chain…   cl-s<tag> ─ eth0
#
# lab_up TAG makes it, lab_services starts an HTTP and a DNS server in the server's namespace, lab_down removes all
# that lab_up and lab_services made. Addresses are from the private and documentation ranges (RFC 1918, RFC 3849).

lab_client_mac=02:00:00:00:0a:02
lab_server_mac=02:00:00:00:0b:02
# Where the two send what is for the other. Not the addresses of the veths' host ends, so the host's own stack lets
# these frames alone; who takes them from those interfaces is the router.
lab_gate_a_mac=02:00:00:00:0a:01
lab_gate_b_mac=02:00:00:00:0b:01

lab_up() {
    lab_tag=$1
    lab_client=cl-client-$lab_tag lab_server=cl-server-$lab_tag
    lab_if_a=cl-c$lab_tag lab_if_b=cl-s$lab_tag
    lab_dir=$(mktemp -d)
    lab_pids=()
    trap lab_down EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    ip netns add "$lab_client"
    ip netns add "$lab_server"
    lab_end "$lab_client" "$lab_if_a" "$lab_client_mac" 10.10.0.2/24 2001:db8:a::2/64 10.10.0.1 2001:db8:a::1 \
        "$lab_gate_a_mac"
    lab_end "$lab_server" "$lab_if_b" "$lab_server_mac" 10.20.0.2/24 2001:db8:b::2/64 10.20.0.1 2001:db8:b::1 \
        "$lab_gate_b_mac"
}

# lab_end NAMESPACE HOST_IF MAC ADDR4 ADDR6 GATE4 GATE6 GATE_MAC: a namespace whose eth0 is a veth to HOST_IF.
lab_end() {
    local ns=$1 host_if=$2 mac=$3 addr4=$4 addr6=$5 gate4=$6 gate6=$7 gate_mac=$8
    ip link add "$host_if" type veth peer name eth0 netns "$ns" address "$mac"
    # The host only passes frames on: no addresses of its own, no router solicitations.
    echo 1 >"/proc/sys/net/ipv6/conf/$host_if/disable_ipv6"
    ip link set "$host_if" up
    ip -n "$ns" link set lo up
    ip netns exec "$ns" sysctl -qw net.ipv6.conf.eth0.accept_dad=0 net.ipv6.conf.eth0.router_solicitations=0
    ip -n "$ns" addr add "$addr4" dev eth0
    ip -n "$ns" addr add "$addr6" dev eth0 nodad
    ip -n "$ns" link set eth0 up
    # Whoever captures between the two must see finished checksums and frames of wire size.
    ip netns exec "$ns" ethtool -K eth0 tx off tso off gso off gro off >/dev/null 2>&1 || true
    ethtool -K "$host_if" tx off tso off gso off gro off >/dev/null 2>&1 || true
    ip -n "$ns" neigh add "$gate4" lladdr "$gate_mac" dev eth0 nud permanent
    ip -n "$ns" neigh add "$gate6" lladdr "$gate_mac" dev eth0 nud permanent
    ip -n "$ns" route add default via "$gate4"
    ip -n "$ns" -6 route add default via "$gate6"
}

# Files of a known size over HTTP, names over DNS, and an echo of pings by the kernel itself.
lab_services() {
    mkdir "$lab_dir/www"
    head -c 20000 /dev/zero | tr '\0' 'c' >"$lab_dir/www/small.txt"
    head -c 20000000 /dev/zero | tr '\0' 'd' >"$lab_dir/www/large.bin"
    ip netns exec "$lab_server" python3 -m http.server --bind :: --directory "$lab_dir/www" 80 \
        >"$lab_dir/http.log" 2>&1 &
    lab_pids+=($!)
    ip netns exec "$lab_server" dnsmasq --keep-in-foreground --conf-file=/dev/null --no-resolv --no-hosts \
        --pid-file="$lab_dir/dnsmasq.pid" --user=root --bind-interfaces --listen-address=10.20.0.2,2001:db8:b::2 \
        --address=/www.example.net/10.20.0.2 --address=/www.example.net/2001:db8:b::2 \
        --txt-record=chain.example.net,"one burst at a time" >"$lab_dir/dns.log" 2>&1 &
    lab_pids+=($!)
    lab_wait_for "HTTP server" ip netns exec "$lab_server" \
        curl --silent --output /dev/null --max-time 1 http://10.20.0.2/small.txt
    lab_wait_for "DNS server" ip netns exec "$lab_server" dig +time=1 +tries=1 +short @10.20.0.2 www.example.net
}

# lab_wait_for WHAT COMMAND…: until COMMAND succeeds, at most ten seconds.
lab_wait_for() {
    local what=$1 deadline=$((SECONDS + 10))
    shift
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS >= deadline)); then
            echo "$what: no answer within 10 s" >&2
            return 1
        fi
        sleep 0.1
    done
}

lab_in_client() { ip netns exec "$lab_client" "$@"; }

# Runs on every way out, so it must not stop at the first thing that is gone already.
lab_down() {
    local pid
    for pid in "${lab_pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    for pid in "${lab_pids[@]}"; do wait "$pid" 2>/dev/null || true; done
    ip link del "$lab_if_a" 2>/dev/null || true
    ip link del "$lab_if_b" 2>/dev/null || true
    ip netns del "$lab_client" 2>/dev/null || true
    ip netns del "$lab_server" 2>/dev/null || true
    rm -rf "$lab_dir"
}
