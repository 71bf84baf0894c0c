//! `include/chainline_nf.h` is what the types say, and compiles as C11 and C++17 without a warning.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

const HEADER: &str = "include/chainline_nf.h";

fn generated() -> String {
    let mut config = cbindgen::Config::from_file("cbindgen.toml").unwrap();
    // `#pragma once`, since a guard would end before the trailer.
    config.trailer = Some(std::fs::read_to_string("helpers.h").unwrap());
    let bindings = cbindgen::Builder::new().with_src("src/lib.rs").with_config(config).generate().unwrap();
    let mut out = Vec::new();
    bindings.write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn the_committed_header_is_the_generated_one() {
    let new = generated();
    if std::env::var_os("UPDATE").is_some_and(|v| v == "1") {
        std::fs::write(HEADER, &new).unwrap();
    }
    let old = std::fs::read_to_string(HEADER).unwrap_or_default();
    assert!(old == new, "{HEADER} is out of date: run `UPDATE=1 cargo test -p chainline-nf-abi`");
}

#[test]
fn it_compiles_as_c11_and_as_cpp17() {
    let dir = std::env::temp_dir().join(format!("chainline-header-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let include = Path::new("include").canonicalize().unwrap();
    let program = "#include <chainline_nf.h>\n#include <chainline_nf.h>\n\
        static int32_t create(const char *args, struct chainline_env *env, void **self) { (void)args; (void)env; *self = NULL; return CHAINLINE_OK; }\n\
        static int32_t process(void *self, struct chainline_packet *p, uint32_t n, struct chainline_ctx *ctx) {\n\
            (void)self; for (uint32_t i = 0; i < n; i++) { p[i].verdict = p[i].len ? cl_next() : cl_drop(0); cl_count(ctx, 0, 1); }\n\
            return CHAINLINE_OK; }\n\
        static const struct chainline_nf nf = { CHAINLINE_NF_HEAD, \"k\", \"a\", NULL, create, process, NULL, NULL, NULL, NULL, NULL };\n\
        CHAINLINE_EXPORT_NF(nf)\n";
    for (compiler, standard, file) in [("cc", "-std=c11", "nf.c"), ("c++", "-std=c++17", "nf.cpp")] {
        let source = dir.join(file);
        std::fs::write(&source, program).unwrap();
        let out = Command::new(compiler)
            .args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fPIC", "-shared", "-nostdlib", "-o"])
            .arg(dir.join("nf.so"))
            .arg("-I")
            .arg(&include)
            .arg(&source)
            .output()
            .unwrap();
        assert!(out.status.success(), "{compiler}: {}", String::from_utf8_lossy(&out.stderr));
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
