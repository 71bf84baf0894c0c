#!/usr/bin/env bash
# Installs with apt what Chainline needs on Debian 12 or later and the host lacks. Quick when nothing is missing.
#
#   scripts/deps.sh           to build and run, and what make demo needs
#   scripts/deps.sh --test    that, and what the whole test suite needs
#
# Without root it prints the one line that root would run. It ends with 0 when the build can go on, with 1 when a
# package that the build itself needs is missing; what is missing for tests or the demo alone is named and skipped there.
set -euo pipefail

# DPDK with its headers and drivers; bindgen's clang; a C compiler for the shim; libpcap for captures.
build=(libdpdk-dev dpdk-dev libpcap-dev libnuma-dev libclang-dev clang gcc make pkg-config)
# Real programs in namespaces: ping, curl, dig against dnsmasq, a Python HTTP server; tcpdump records.
run=(iproute2 iputils-ping curl bind9-dnsutils dnsmasq-base python3 tcpdump ethtool procps)
# Judges of what comes out, instruction counts, compressed corpora.
# The other dataplanes of `chainline bench compare` are nftables and Open vSwitch; testpmd comes with dpdk-dev. Chromium
# opens the page of a benchmark: heavy, about 300 MB.
test=(tshark valgrind xz-utils iperf3 nftables g++ python3-venv openvswitch-switch chromium)
# The other side of the search's oracle test, in a Python of its own.
oracle=MLRsearch==1.2.1

want=("${build[@]}" "${run[@]}")
[[ ${1:-} == --test ]] && want+=("${test[@]}")

lacks() { # of the packages given, those not installed
    local have
    have=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null | sed -n 's/^installed //p' || true)
    comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$have")
}

# Nothing that is installed here starts a service, neither now nor, for Open vSwitch, at the next start of the host: the
# bench runs daemons of its own. Whoever wants Debian's says systemctl unmask openvswitch-switch.
policy=
no_services() {
    if [[ ! -e /usr/sbin/policy-rc.d ]]; then
        policy=/usr/sbin/policy-rc.d
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 755 "$policy"
    fi
    if [[ " $* " == *" openvswitch-switch "* && -d /etc/systemd/system && ! -e /etc/systemd/system/openvswitch-switch.service ]]; then
        ln -s /dev/null /etc/systemd/system/openvswitch-switch.service
        echo "deps: openvswitch-switch.service is masked: it does not start by itself"
    fi
}

rust_needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$(dirname "$0")/../Cargo.toml")
rust_found=$(rustc --version 2>/dev/null | cut -d' ' -f2 || true)
if [[ -z $rust_found ]] || ! command -v cargo >/dev/null; then
    echo "deps: found no cargo and rustc, expected Rust $rust_needed or later: see https://rustup.rs, or" >&2
    echo "      curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" >&2
    rust_ok=false
elif [[ $(printf '%s\n' "$rust_needed" "$rust_found" | sort -V | head -1) != "$rust_needed" ]]; then
    echo "deps: found Rust $rust_found, expected $rust_needed or later: run rustup update stable" >&2
    rust_ok=false
else
    rust_ok=true
fi

if ! command -v dpkg-query >/dev/null; then
    echo "deps: this is no Debian. Needed by other means: DPDK 22.11 or later, libpcap, libnuma, libclang, a C compiler," >&2
    echo "      make, pkg-config; for the demo: ${run[*]}" >&2
    $rust_ok && pkg-config --atleast-version=22.11 libdpdk
    exit
fi

mapfile -t missing < <(lacks "${want[@]}")
if ((${#missing[@]})); then
    if [[ $(id -u) -eq 0 ]]; then
        echo "deps: installing ${missing[*]}"
        export DEBIAN_FRONTEND=noninteractive
        no_services "${missing[@]}"
        log=$(mktemp)
        # Another apt may be at work, on a fresh machine often is: wait for its lock.
        if ! { apt-get -q -o DPkg::Lock::Timeout=300 update &&
            apt-get -q -y -o DPkg::Lock::Timeout=300 --no-install-recommends install "${missing[@]}"; } >"$log" 2>&1; then
            tail -20 "$log" >&2
            echo "deps: apt-get failed; the whole log is in $log" >&2
        else
            rm -f "$log"
        fi
    else
        echo "deps: missing packages; as root:" >&2
        echo "      apt-get update && apt-get install --no-install-recommends ${missing[*]}" >&2
    fi
    mapfile -t missing < <(lacks "${want[@]}")
fi

mapfile -t missing_build < <(lacks "${build[@]}")
if ((${#missing_build[@]})); then
    echo "deps: cannot build without ${missing_build[*]}" >&2
    exit 1
fi
$rust_ok || exit 1
if [[ ${1:-} == --test ]]; then
    venv=$(dirname "$0")/../target/oracle-venv
    if ! "$venv/bin/python" -c 'import MLRsearch' 2>/dev/null; then
        mkdir -p "$(dirname "$venv")"
        if log=$(python3 -m venv "$venv" 2>&1 && "$venv/bin/pip" -q --disable-pip-version-check install "$oracle" 2>&1); then
            echo "deps: installed $oracle into target/oracle-venv"
        else
            tail -3 <<<"$log" >&2
            echo "deps: no $oracle from PyPI; the search's oracle test will be skipped" >&2
        fi
    fi
fi
if ((${#missing[@]})); then
    echo "deps: ready to build; what needs ${missing[*]} will be skipped by name"
else
    echo "deps: complete (Rust $rust_found, DPDK $(pkg-config --modversion libdpdk))"
fi
