//! Finds DPDK, compiles the shim and writes the bindings.

use std::env;
use std::path::PathBuf;
use std::process::exit;

/// What the crates above use and nothing else: a small list keeps the build short and the bindings readable.
const FUNCTIONS: &[&str] = &[
    "chainline_.*",
    "rte_acl_(create|free|add_rules|build|classify)",
    "rte_dev_(dma_map|dma_unmap|probe|remove)",
    "rte_eal_(init|cleanup|get_runtime_dir)",
    "rte_eth_dev_(adjust_nb_rx_tx_desc|close|configure|get_mtu|get_port_by_name|info_get|set_mtu|start|stop)",
    "rte_eth_(macaddr_get|promiscuous_enable)",
    "rte_eth_(rx_queue_setup|tx_queue_setup|stats_get)",
    "rte_extmem_(un)?register",
    "rte_fib6?_(create|free|add|delete|get_rib|lookup_bulk)",
    "rte_hash_(create|free|iterate|count|reset|max_key_id|get_key_with_position)",
    "rte_hash_(add_key_with_hash|del_key_with_hash|lookup_with_hash|lookup_with_hash_bulk)",
    "rte_log_(set_global_level|set_level_pattern)",
    "rte_malloc_(get_socket_stats|heap_create|heap_get_socket|heap_memory_add)",
    "rte_mempool_(create_empty|free|obj_iter|populate_default|register_ops|set_ops_byname|avail_count)",
    "rte_openlog_stream",
    "rte_pktmbuf_init",
    "rte_rib6?_get_(depth|ip|nh|nxt)",
    "rte_strerror",
    "rte_version",
];
const TYPES: &[&str] = &["rte_acl_rule_data", "chainline_mbuf_offset"];
const VARS: &[&str] = &[
    "CHAINLINE_.*",
    "RTE_ACL_FIELD_TYPE_.*",
    "RTE_ACL_M.*",
    "RTE_ETHER_(CRC|HDR)_LEN",
    "RTE_HASH_LOOKUP_BULK_MAX",
    "RTE_RIB6?_GET_NXT_ALL",
];
/// Only handled through pointers here.
const OPAQUE: &[&str] =
    &["rte_mbuf.*", "rte_mempool", "rte_eth_rxconf", "rte_eth_txconf", "rte_device", "rte_eth_conf"];

/// Linked by name instead of from the .pc file, which lists every library of DPDK: each costs start-up time.
const LIBRARIES: &[&str] =
    &["rte_acl", "rte_eal", "rte_ethdev", "rte_fib", "rte_hash", "rte_mbuf", "rte_mempool", "rte_rib"];

fn main() {
    println!("cargo:rerun-if-changed=wrapper.h");
    println!("cargo:rerun-if-changed=shim.h");
    println!("cargo:rerun-if-changed=shim.c");

    let dpdk = pkg_config::Config::new().cargo_metadata(false).atleast_version("22.11").probe("libdpdk");
    let dpdk = dpdk.unwrap_or_else(|e| {
        fail(&format!("DPDK 22.11 or later not found: install libdpdk-dev, or run make deps\n{e}"))
    });
    // pkg_config keeps only -I, -D, -L and -l; the headers also need rte_config.h before anything else.
    let includes: Vec<String> = dpdk.include_paths.iter().map(|p| format!("-I{}", p.display())).collect();

    let mut shim = cc::Build::new();
    shim.file("shim.c").warnings(true).flag("-std=gnu11").flag("-include").flag("rte_config.h");
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        // The instruction set of the distribution's own build ("corei7", SSE 4.2): inline functions of the headers
        // refuse less, and more (-march=native) would tie the binary to the builder's CPU for nothing, since the
        // libraries choose AVX2 and AVX512 at run time.
        shim.flag("-march=corei7");
    }
    for include in &includes {
        shim.flag(include);
    }
    shim.compile("chainline_dpdk_shim");

    for path in &dpdk.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    for library in LIBRARIES {
        println!("cargo:rustc-link-lib=dylib={library}");
    }

    let mut bindings = bindgen::Builder::default()
        .header("wrapper.h")
        .clang_args(&includes)
        .clang_args(["-include", "rte_config.h", "-DALLOW_EXPERIMENTAL_API"])
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        .generate_comments(false)
        .layout_tests(false)
        .derive_default(true)
        .rust_edition(bindgen::RustEdition::Edition2024)
        .use_core();
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        bindings = bindings.clang_arg("-march=corei7");
    }
    for f in FUNCTIONS {
        bindings = bindings.allowlist_function(f);
    }
    for t in TYPES {
        bindings = bindings.allowlist_type(t);
    }
    for v in VARS {
        bindings = bindings.allowlist_var(v);
    }
    for t in OPAQUE {
        bindings = bindings.opaque_type(t);
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_else(|| fail("OUT_DIR is not set: build with cargo")));
    let bindings = bindings.generate().unwrap_or_else(|e| fail(&format!("bindgen: {e} (is libclang-dev installed?)")));
    if let Err(e) = bindings.write_to_file(out.join("dpdk.rs")) {
        fail(&format!("{}: {e}", out.display()));
    }
}

/// Ends with a message in place of a backtrace.
fn fail(message: &str) -> ! {
    eprintln!("error: {message}");
    exit(1)
}
