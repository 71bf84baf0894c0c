//! Shared objects, good and bad, through the loader. The C ones are compiled here.
#![allow(clippy::unwrap_used)]

use chainline_nf::golden::Subject;
use chainline_nf::testing::NoHolds;
use chainline_nf::{
    Burst, Ctx, Env, Error, Field, HoldId, Holds, NfObject, Packet, PacketMeta, Scope, State, Verdict, golden,
};
use chainline_nf_c::{LoadedKind, load};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

struct Object(PathBuf);

impl Drop for Object {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Compiles C into a shared object that links against nothing.
fn compile(name: &str, source: &str) -> Object {
    let base = std::env::temp_dir().join(format!("chainline-nf-c-{}-{name}", std::process::id()));
    let (c, so) = (base.with_extension("c"), base.with_extension("so"));
    std::fs::write(&c, source).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nf-abi/include");
    let out = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-fPIC", "-shared", "-nostdlib", "-I"])
        .args([&include, Path::new("-o"), &so, &c])
        .output()
        .unwrap();
    std::fs::remove_file(&c).unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Object(so)
}

const PROCESS: &str = "#include <chainline_nf.h>\n\
    static int32_t create(const char *args, struct chainline_env *env, void **self) { (void)args; (void)env; (void)self; return CHAINLINE_OK; }\n\
    static int32_t process(void *self, struct chainline_packet *p, uint32_t n, struct chainline_ctx *ctx) { (void)self; (void)p; (void)n; (void)ctx; return CHAINLINE_OK; }\n\
    static struct chainline_nf nf = {CHAINLINE_NF_HEAD, \"bad\", \"is bad\", NULL, create, process, NULL, NULL, NULL, NULL, NULL};\n";

/// What the loader says of an object whose entry function does this before it returns the table.
fn refusal(name: &str, before: &str) -> String {
    let object = compile(
        name,
        &format!("{PROCESS}const struct chainline_nf *chainline_nf_v1(void) {{ {before} return &nf; }}\n"),
    );
    load(&object.0).unwrap_err().to_string().replace(&object.0.display().to_string(), "FILE")
}

/// An empty one, and states that are wrong.
const FOOTPRINT: &str = "static struct chainline_footprint f; nf.footprint = &f;";

fn footprint(rest: &str, n: u32) -> String {
    format!(
        "static struct chainline_state state[] = {{{{\"s\", NULL, 7, 0}}, {{NULL, NULL, 0, 0}}, {{\"s\", \"\\xff\", 0, 0}}}};
        (void)state; struct chainline_footprint g = {{sizeof g, {n}, {rest}}}; {FOOTPRINT} f = g;"
    )
}

#[test]
fn what_is_not_an_nf_is_refused_with_a_reason() {
    let cases = [
        (
            "version",
            "nf.abi_version = 7;",
            "FILE speaks ABI version 7; this host speaks 2: rebuild it with this host's chainline_nf.h",
        ),
        (
            "short",
            "nf.struct_size = 24;",
            "FILE: `struct chainline_nf` has 24 bytes there and 96 here: rebuild it with this host's chainline_nf.h",
        ),
        ("packet", "nf.packet_size = 40;", "FILE: `struct chainline_packet` has 40 bytes there and 32 here: rebuild"),
        ("ctx", "nf.ctx_size = 1000;", "FILE: `struct chainline_ctx` has 1000 bytes there and 96 here: rebuild"),
        ("at", "nf.footprint = (void *)1;", "FILE: `footprint`: 0x1; expected the address of a `struct chainline_foot"),
        ("size", FOOTPRINT, "FILE: `footprint`: 0 bytes long; expected 32"),
        ("states", &footprint("0, 0, NULL", 2), "FILE: `footprint`: 2 states at 0x0; expected up to 64"),
        ("many", &footprint("0, 0, state", 65), "FILE: `footprint`: 65 states at 0x"),
        (
            "reads",
            &footprint("1ull << 50, 0, NULL", 0),
            "FILE: `footprint`: reads: 0x4000000000000; expected no bits but 0xf",
        ),
        (
            "writes",
            &footprint("3, 1 << 20, NULL", 0),
            "FILE: `footprint`: writes: 0x100000; expected no bits but 0xfffff",
        ),
        ("scope", &footprint("0, 0, state", 1), "FILE: `footprint`: scope of state 0: 7; expected 0 to 6"),
        ("name", &footprint("0, 0, state + 1", 1), "FILE: `footprint`: name of state 0: NULL; expected text"),
        ("with", &footprint("0, 0, state + 2", 1), "FILE: `footprint`: argument of state 0: not UTF-8"),
        ("env", "nf.env_size = 1000;", "FILE: `struct chainline_env` has 1000 bytes there and 104 here: rebuild"),
        ("null", "return 0;", "FILE: `chainline_nf_v1` returned NULL; expected the address of a `struct chainline_nf`"),
        ("odd", "return (void *)((char *)&nf + 1);", "FILE: `chainline_nf_v1` returned 0x"),
        ("create", "nf.create = 0;", "FILE: `create`: NULL; expected a function"),
        ("process", "nf.process = 0;", "FILE: `process`: NULL; expected a function"),
        ("kind", "nf.kind = 0;", "FILE: `kind`: NULL; expected text"),
        ("empty", "nf.kind = \"\";", "FILE: `kind`: \"\"; expected a word"),
        ("about", "nf.about = \"\\xff\\xfe\";", "FILE: `about`: not UTF-8"),
        (
            "endless",
            "static char t[5000]; for (int i = 0; i < 5000; i++) ((volatile char *)t)[i] = 'a'; nf.about = t;",
            "FILE: `about`: no NUL within 4096 bytes",
        ),
        ("json", "nf.args_schema = \"{\";", "FILE: `args_schema`: not JSON: EOF while parsing"),
        ("schema", "nf.args_schema = \"{\\\"type\\\": 5}\";", "FILE: `args_schema`: not a JSON Schema: "),
        (
            "remote",
            "nf.args_schema = \"{\\\"$ref\\\": \\\"https://example.com/x\\\"}\";",
            "FILE: `args_schema`: not a JSON Schema: ",
        ),
    ];
    for (name, before, expected) in cases {
        let got = refusal(name, before);
        assert!(got.starts_with(expected), "{name}: {got}");
    }
    let none = compile("none", "int unrelated(void); int unrelated(void) { return 0; }\n");
    let e = load(&none.0).unwrap_err().to_string();
    assert!(
        e.ends_with("exports no function `chainline_nf_v1`: it is not an NF, or one for another major version"),
        "{e}"
    );
    let e = load("/nonexistent/nf.so").unwrap_err().to_string();
    assert_eq!(e, "cannot load /nonexistent/nf.so: No such file or directory (os error 2)");
    let text = std::env::temp_dir().join(format!("chainline-nf-c-{}-text.so", std::process::id()));
    std::fs::write(&text, "not an object").unwrap();
    let e = load(&text).unwrap_err().to_string();
    std::fs::remove_file(&text).unwrap();
    assert!(e.starts_with(&format!("cannot load {}: ", text.display())), "{e}");
}

/// A newer object of the same version has more at its end.
#[test]
fn a_longer_table_of_the_same_version_is_taken() {
    let source = format!(
        "{PROCESS}static struct {{ struct chainline_nf nf; int more[9]; }} longer;\n\
        const struct chainline_nf *chainline_nf_v1(void) {{ longer.nf = nf; longer.nf.struct_size = sizeof longer; return &longer.nf; }}\n"
    );
    let object = compile("longer", &source);
    assert_eq!(load(&object.0).unwrap().name(), "bad");
}

/// An older object of the same version ends before what was added since.
#[test]
fn a_shorter_table_of_the_same_version_is_taken() {
    let source = format!(
        "{PROCESS}const struct chainline_nf *chainline_nf_v1(void) {{\
        nf.struct_size = 96; nf.ctx_size = 88; nf.footprint = (void *)1; return &nf; }}\n"
    );
    let object = compile("shorter", &source);
    let kind = load(&object.0).unwrap();
    assert_eq!((kind.name(), kind.footprint()), ("bad", None));
    let (mut nf, _) = build(&kind, json!({})).unwrap();
    assert_eq!(call(&mut *nf, 2), vec![(Verdict::NEXT, vec![2; 64]); 2]);
}

#[test]
fn footprints_travel_with_objects() {
    let object = compile("footprint", include_str!("objects/good.c"));
    let states = [State::new("held", Scope::Instance, 4), State::new("words", Scope::Flow, 0).with("word")];
    let found = load(&object.0).unwrap().footprint().unwrap();
    assert_eq!((found.reads, found.writes), (&[Field::Frame, Field::FrameLength][..], &[Field::Frame][..]));
    assert_eq!(found.state, states);
    let states = [State::new("held", Scope::Instance, 4), State::new("rules", Scope::Configured, 0).with("rules")];
    let found = odd().footprint().unwrap();
    assert_eq!((found.reads, found.writes), (&[Field::EtherType, Field::Protocol][..], &[Field::Frame][..]));
    assert_eq!(found.state, states);
}

/// The last tick is known as such on the other side.
#[test]
fn who_ends_is_told() {
    let tick = "static int32_t tick(void *self, struct chainline_ctx *ctx) { (void)self; cl_count(ctx, 1, cl_is_ending(ctx) ? 100 : 1); return CHAINLINE_OK; }\n";
    let source = PROCESS.replace("static struct chainline_nf", &format!("{tick}static struct chainline_nf"));
    let source = source.replace("create, process, NULL", "create, process, tick");
    let object = compile("ends", &format!("{source}CHAINLINE_EXPORT_NF(nf)\n"));
    let (mut nf, _) = build(&load(&object.0).unwrap(), json!({})).unwrap();
    let (mut rust, _) = build(&odd(), json!({"panic": "never"})).unwrap();
    let counters = [const { AtomicU64::new(0) }; 3];
    let counted = |nf: &mut dyn NfObject, ending: bool| {
        nf.tick(&mut Ctx::new(0, &counters, &mut NoHolds).with_ending(ending));
        counters[1].swap(0, Relaxed)
    };
    assert_eq!([false, true].map(|ending| counted(&mut *nf, ending)), [1, 100]);
    assert_eq!([false, true].map(|ending| counted(&mut *rust, ending)), [0, u64::MAX]);
}

fn build(kind: &LoadedKind, args: serde_json::Value) -> Result<(Box<dyn NfObject>, Vec<String>), Error> {
    let targets = ["scrub".to_owned()];
    let mut env = Env::new(Path::new("."), &targets);
    let nf = kind.build(args, &mut env)?;
    Ok((nf, env.into_declared().drop_reasons))
}

/// One call with `n` packets of 64 bytes; verdicts and frames.
fn call(nf: &mut dyn NfObject, n: usize) -> Vec<(Verdict, Vec<u8>)> {
    let counters: Vec<AtomicU64> = (0..2).map(|_| AtomicU64::new(0)).collect();
    let mut buffers = vec![[2_u8; 256]; n];
    let mut burst = Burst::new();
    for b in &mut buffers {
        burst.push(Packet::new(b, 64, 64, PacketMeta::default()).unwrap()).unwrap();
    }
    nf.process(&mut burst, &mut Ctx::new(0, &counters, &mut NoHolds));
    assert_eq!(counters[0].load(Relaxed) as usize % n, 0);
    burst.packets().iter().zip(burst.verdicts()).map(|(p, v)| (*v, p.data().to_vec())).collect()
}

fn panic_message(f: impl FnOnce()) -> String {
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_err();
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[test]
fn lies_about_frames_and_verdicts_drop_that_packet_only() {
    let lies = [
        ("p->off = 200;", "bad_frame"),
        ("p->len = 65535;", "bad_frame"),
        ("p->off = 65535; p->len = 65535;", "bad_frame"),
        ("p->verdict = 0xff000000u;", "bad_verdict"),
        ("p->verdict = 1;", "bad_verdict"),
        ("p->verdict = cl_drop(0);", "bad_verdict"),
        ("p->verdict = cl_drop(1);", "bad_verdict"),
        ("p->verdict = cl_drop(300);", "bad_verdict"),
        ("p->verdict = cl_divert(1);", "bad_verdict"),
    ];
    for (i, (lie, expected)) in lies.into_iter().enumerate() {
        // This NF declared no reason; the adapter's own are not for it.
        let source = PROCESS.replace("(void)self; (void)p; (void)n;", &format!("(void)self; (void)n; {lie}"));
        let object = compile(&format!("lie{i}"), &format!("{source}CHAINLINE_EXPORT_NF(nf)\n"));
        let (mut nf, reasons) = build(&load(&object.0).unwrap(), json!(null)).unwrap();
        let got = call(&mut *nf, 3);
        let index = reasons.iter().position(|r| r == expected).unwrap() as u32;
        assert_eq!(got[0].0.to_bits(), 1 << 24 | index, "{lie}");
        assert_eq!(got[0].1, [2; 64], "{lie}: the frame stays where it was");
        assert_eq!(got[1], (Verdict::NEXT, vec![2; 64]), "{lie}");
    }
}

#[test]
fn other_lies_have_no_effect() {
    let lie = "p->buf = NULL; p->buf_len = 9; p->chain = 7; p->hop = 9; p->flow_hash = 1;";
    let source = PROCESS.replace("(void)self; (void)p; (void)n;", &format!("(void)self; (void)n; {lie}"));
    let object = compile("other", &format!("{source}CHAINLINE_EXPORT_NF(nf)\n"));
    let (mut nf, _) = build(&load(&object.0).unwrap(), json!({})).unwrap();
    for _ in 0..2 {
        assert_eq!(call(&mut *nf, 256), vec![(Verdict::NEXT, vec![2; 64]); 256]);
    }
}

#[test]
fn an_error_is_the_end_of_the_instance() {
    let source = PROCESS.replace("(void)ctx; return CHAINLINE_OK;", "ctx->fail(ctx, \"out of luck\"); return -99;");
    let object = compile("error", &format!("{source}CHAINLINE_EXPORT_NF(nf)\n"));
    let (mut nf, _) = build(&load(&object.0).unwrap(), json!({})).unwrap();
    let message = panic_message(|| drop(call(&mut *nf, 1)));
    assert!(message.ends_with(": process returned error -99: out of luck"), "{message}");
    let message = panic_message(|| drop(call(&mut *nf, 1)));
    assert!(message.ends_with(": called again after it had failed"), "{message}");
    assert_eq!(nf.report(), None);
}

#[test]
fn arguments_are_checked_before_the_nf_sees_them() {
    let object = compile("args", include_str!("objects/good.c"));
    let kind = load(&object.0).unwrap();
    assert_eq!((kind.name(), kind.about()), ("good", "uses everything"));
    let refused = |args| build(&kind, args).err().unwrap().to_string();
    let message = refused(json!({"min_len": 300, "wrod": 1}));
    assert!(message.contains("args.min_len: 300 is greater than the maximum of 100"), "{message}");
    assert!(message.contains("('wrod' was unexpected)"), "{message}");
    assert!(refused(json!([])).starts_with("args: [] is not of type \"object\""));
    assert_eq!(refused(json!({"word": "xyz"})), "word: found x, expected another letter");
    let mut env = Env::new(Path::new("."), &[]);
    let message = kind.build(json!({}), &mut env).err().unwrap().to_string();
    assert_eq!(message, "no target 'scrub': add it to this NF's `divert` list, which has []");
    let plain = compile("plain", &format!("{PROCESS}CHAINLINE_EXPORT_NF(nf)\n"));
    let kind = load(&plain.0).unwrap();
    assert!(build(&kind, json!({"a": 1})).err().unwrap().to_string().starts_with("args: "), "no schema, no arguments");
    let silent = PROCESS.replacen("return CHAINLINE_OK", "return CHAINLINE_E_FAILED", 1);
    let silent = compile("silent", &format!("{silent}CHAINLINE_EXPORT_NF(nf)\n"));
    let message = build(&load(&silent.0).unwrap(), json!({})).err().unwrap().to_string();
    assert_eq!(message, "create returned -5 without a message");
}

#[test]
fn a_c_nf_can_do_all_that_a_rust_nf_can() {
    let object = compile("good", include_str!("objects/good.c"));
    golden::run(&load(&object.0).unwrap(), "tests/golden/good.golden");
}

#[test]
fn a_c_nf_can_hold_packets() {
    // A copy of its own, since its state is static.
    let object = compile("holds", include_str!("objects/good.c"));
    let kind = load(&object.0).unwrap();
    let text = std::env::temp_dir().join(format!("chainline-nf-c-{}.golden", std::process::id()));
    let frame = |first: &str| format!("{first} 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e");
    std::fs::write(
        &text,
        format!(
            "targets: [scrub]\nplaces: 2\nburst: false\nin: {a}\nout: hold 0\nin: {a}\nout: hold 1\nin: {a}\nout: next\n\
             counters: {{seen: 3, level: 2}}\nnow: 3ms\ntick\nreleased: 0 next = {b}\nreleased: 1 drop bad_verdict\n\
             counters: {{seen: 3}}\nheld: 0\nreport: ticks 1\n",
            a = frame("04"),
            b = frame("93")
        ),
    )
    .unwrap();
    let result = golden::check(&kind, &text, false);
    std::fs::remove_file(&text).unwrap();
    result.unwrap();
}

/// The Rust NF of `objects/odd_nf.rs`, which cargo builds beside this test.
fn odd() -> LoadedKind {
    let dir = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples");
    load(dir.join("libodd_nf.so")).expect("run all targets: `cargo test -p chainline-nf-c`")
}

#[test]
fn a_rust_nf_in_a_shared_object_does_what_it_does_elsewhere() {
    let kind = odd();
    assert_eq!((kind.name(), kind.about()), ("odd", "panics on request"));
    golden::run(&kind, "tests/golden/odd.golden");
}

#[test]
fn a_panic_in_a_rust_nf_is_the_end_of_the_instance_and_of_nothing_else() {
    let kind = odd();
    let message = build(&kind, json!({"panic": "new"})).err().unwrap().to_string();
    assert_eq!(message, "the NF panicked: on purpose");
    let (mut nf, _) = build(&kind, json!({"panic": "process"})).unwrap();
    let message = panic_message(|| drop(call(&mut *nf, 1)));
    assert!(message.ends_with("process returned error -5: the NF panicked: on purpose"), "{message}");
    let (mut nf, _) = build(&kind, json!({"panic": "tick"})).unwrap();
    let message = panic_message(|| nf.tick(&mut Ctx::new(0, &[], &mut NoHolds)));
    assert!(message.ends_with("tick returned error -5: the NF panicked: on purpose"), "{message}");
    let (nf, _) = build(&kind, json!({"panic": "report"})).unwrap();
    let report = nf.report().unwrap();
    assert!(report.starts_with("(odd (") && report.ends_with("could not report: error -5)"), "{report}");
    drop(build(&kind, json!({"panic": "drop"})).unwrap());
    let (mut nf, _) = build(&kind, json!({"panic": "never", "shrink": true})).unwrap();
    let message = panic_message(|| drop(call(&mut *nf, 3)));
    assert!(message.ends_with("error -22: the NF left 1 of 3 packets in its burst"), "{message}");
}

#[test]
fn a_panic_inside_a_held_packet_does_not_cross_c() {
    struct OneHeld([u8; 64], bool);
    impl Holds for OneHeld {
        fn reserve(&mut self) -> Option<HoldId> {
            Some(HoldId::from_bits(0))
        }
        fn with(&mut self, _: HoldId, f: &mut dyn FnMut(&mut Packet<'_>)) -> bool {
            f(&mut Packet::new(&mut self.0, 0, 64, PacketMeta::default()).unwrap());
            true
        }
        fn release(&mut self, _: HoldId, _: Verdict) -> bool {
            self.1 = true;
            true
        }
    }
    let (mut nf, _) = build(&odd(), json!({"panic": "held"})).unwrap();
    let mut holds = OneHeld([0; 64], false);
    let counters = [const { AtomicU64::new(0) }; 2];
    let mut bytes = [0; 64];
    bytes[23] = 1;
    let mut burst = Burst::new();
    burst.push(Packet::new(&mut bytes, 0, 64, PacketMeta::default()).unwrap()).unwrap();
    nf.process(&mut burst, &mut Ctx::new(0, &counters, &mut holds));
    assert_eq!(burst.verdicts(), [Verdict::hold(HoldId::from_bits(0))]);
    let message = panic_message(|| nf.tick(&mut Ctx::new(0, &counters, &mut holds)));
    assert!(message.ends_with("the NF panicked: on purpose"), "{message}");
    assert!(!holds.1);
}

#[test]
fn a_host_that_panics_is_told_to_the_nf_as_an_error() {
    struct Broken;
    impl Holds for Broken {
        fn reserve(&mut self) -> Option<HoldId> {
            panic!("the host's own")
        }
        fn with(&mut self, _: HoldId, _: &mut dyn FnMut(&mut Packet<'_>)) -> bool {
            panic!("the host's own")
        }
        fn release(&mut self, _: HoldId, _: Verdict) -> bool {
            panic!("the host's own")
        }
    }
    let (mut nf, _) = build(&odd(), json!({"panic": "never"})).unwrap();
    let mut bytes = [0; 64];
    bytes[23] = 1;
    let mut burst = Burst::new();
    burst.push(Packet::new(&mut bytes, 0, 64, PacketMeta::default()).unwrap()).unwrap();
    nf.process(&mut burst, &mut Ctx::new(0, &[], &mut Broken));
    assert_eq!(burst.verdicts(), [Verdict::NEXT]);
}

#[test]
fn the_schema_of_a_rust_nf_travels_with_it() {
    let kind = odd();
    let message = build(&kind, json!({"panic": "sometimes"})).err().unwrap().to_string();
    assert!(message.starts_with("args.panic: \"sometimes\" is not"), "{message}");
    assert!(kind.check_args(&json!({"panic": "never", "rules": null})).is_ok());
    assert_eq!(kind.args_schema()["required"], json!(["panic"]));
    // `Subject` is how the golden tests see it.
    let subject: &dyn Subject = &kind;
    assert!(subject.build(json!({"panic": "never"}), &mut Env::new(Path::new("."), &[])).is_ok());
}

/// Nothing on the way of a burst into C and back takes memory.
#[test]
fn a_burst_allocates_nothing() {
    let object = compile("alloc", include_str!("objects/good.c"));
    let (mut nf, _) = build(&load(&object.0).unwrap(), json!({})).unwrap();
    let counters = [const { AtomicU64::new(0) }; 2];
    let mut buffers = vec![[2_u8; 256]; 256];
    let mut burst = Burst::new();
    for b in &mut buffers {
        burst.push(Packet::new(b, 64, 64, PacketMeta::default()).unwrap()).unwrap();
    }
    let used = allocation_counter::measure(|| nf.process(&mut burst, &mut Ctx::new(0, &counters, &mut NoHolds)));
    assert_eq!((used.count_total, counters[0].load(Relaxed)), (0, 256));
}
