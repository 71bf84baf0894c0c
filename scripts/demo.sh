#!/usr/bin/env bash
# demo.sh CHAINLINE: the main job, on real packets, then under full load.
#
# As root: two network namespaces, a chain of NF processes between them on one core, and ping, curl and dig at work
# through it. Without root: the committed capture, looped. Reports go to target/demo. SECONDS_EACH sets how long each
# part takes.
set -euo pipefail
cd "$(dirname "$0")/.."
chainline=${1:?demo.sh: which chainline program?}
each=${SECONDS_EACH:-8}
out=target/demo
mkdir -p "$out"

say() { printf '\n── %s\n' "$*"; }

# What the clients do once the first ping has come through. Each line of theirs is a result.
clients() {
    lab_wait_for "chain" lab_in_client ping -c 1 -W 1 10.20.0.2
    echo "ping IPv4   $(lab_in_client ping -q -c 20 -i 0.05 10.20.0.2 | sed -n 's/^rtt //p; /loss/p' | paste -sd' ')"
    echo "ping IPv6   $(lab_in_client ping -q -c 20 -i 0.05 2001:db8:b::2 | sed -n 's/^rtt //p; /loss/p' | paste -sd' ')"
    local url
    for url in http://10.20.0.2/large.bin "http://[2001:db8:b::2]/small.txt"; do
        lab_in_client curl --silent --show-error --fail --max-time 20 --output "$lab_dir/got" \
            --write-out 'curl        %{url}: %{http_code}, %{size_download} bytes at %{speed_download} bytes/s\n' "$url"
        cmp "$lab_dir/got" "$lab_dir/www/${url##*/}"
    done
    echo "dig A       www.example.net: $(lab_in_client dig +short @10.20.0.2 www.example.net A)"
    echo "dig AAAA    www.example.net: $(lab_in_client dig +short @2001:db8:b::2 www.example.net AAAA)"
    # The firewall's rules deny this port, so nothing may come back.
    if lab_in_client curl --silent --max-time 1 http://10.20.0.2:81/ >/dev/null; then
        echo "port 81 answered, though the firewall denies it"
        return 1
    fi
    echo "port 81     denied by the firewall, as its rules say"
}

# Why the live part cannot be, if it cannot.
missing() {
    [[ $(id -u) -eq 0 ]] || { echo "it needs root"; return; }
    local tool
    for tool in ip ping curl dig dnsmasq python3 ethtool; do
        command -v "$tool" >/dev/null || { echo "there is no $tool: run make deps"; return; }
    done
    ip netns add "cl-try-$$" 2>/dev/null || { echo "network namespaces cannot be made here"; return; }
    ip netns del "cl-try-$$"
}

why_not=$(missing)
if [[ -z $why_not ]]; then
    # shellcheck source=scripts/netns-lab.sh
    . scripts/netns-lab.sh
    say "Real programs in two network namespaces, a chain of NF processes between them"
    lab_up "$$"
    lab_services
    cp examples/two-namespaces.yaml examples/quickstart.rules examples/quickstart.routes "$lab_dir"
    sed -i "s/cl-client0/$lab_if_a/; s/cl-server0/$lab_if_b/" "$lab_dir/two-namespaces.yaml"
    set +e
    (set -e; clients) >"$lab_dir/clients.log" 2>&1 &
    clients_pid=$!
    set -e
    lab_pids+=("$clients_pid")
    "$chainline" run "$lab_dir/two-namespaces.yaml" --duration "${each}s" | tee -i "$out/live.txt"
    say "What the programs saw"
    status=0
    wait "$clients_pid" || status=$?
    cat "$lab_dir/clients.log"
    if ((status)); then
        echo "demo: the programs did not get through the chain" >&2
        exit 1
    fi
else
    say "Recorded packets of real programs through a chain of NF processes (not live: $why_not)"
    "$chainline" run examples/quickstart.yaml --duration "${each}s" | tee -i "$out/live.txt"
fi

say "The same NFs on one core, loaded by the generator with more than they can carry"
"$chainline" run examples/shared-core.yaml --duration "${each}s" | tee -i "$out/load.txt"
say "Reports: $out/live.txt, $out/load.txt"
