//! The tree against `serde-saphyr`'s own reading of the same text, and the limits.

use super::{MAX_BYTES, Value, parse};
use proptest::prelude::*;
use serde_json::Value as Json;

fn tree(text: &str) -> Option<Json> {
    let mut found = Vec::new();
    let root = parse(text, "service chain", &mut found).ok()?;
    found.is_empty().then(|| root.to_json())
}

/// The library's reading with the booleans of YAML 1.2.
fn oracle(text: &str) -> Option<Json> {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).ok()
}

#[test]
fn scalars_are_those_of_the_core_schema() {
    let json = |text: &str| tree(text).unwrap_or_default();
    for (text, expected) in [
        ("true", Json::from(true)),
        ("yes", "yes".into()),
        ("on", "on".into()),
        ("\"1\"", "1".into()),
        ("!!str 1", "1".into()),
        ("0x1F", 31.into()),
        ("0o17", 15.into()),
        ("017", 17.into()),
        ("-5", (-5).into()),
        ("+5", 5.into()),
        ("1.5", 1.5.into()),
        ("1e3", 1000.0.into()),
        ("80-443", "80-443".into()),
        ("10.0.0.0/8", "10.0.0.0/8".into()),
        ("0000:03:00.0", "0000:03:00.0".into()),
        ("~", Json::Null),
        ("18446744073709551615", u64::MAX.into()),
        ("2001:db8::1", "2001:db8::1".into()),
        ("1.2.3.4", "1.2.3.4".into()),
        (".", ".".into()),
        ("-", Json::Array(vec![Json::Null])),
    ] {
        assert_eq!(json(text), expected, "{text}");
    }
}

#[test]
fn places_are_those_of_the_values() {
    let text = "a: é\nb: [1, {c: xyz}]\n";
    let root = parse(text, "service chain", &mut Vec::new()).unwrap_or_else(|e| panic!("{e:?}"));
    let (values, keys) = super::places(&root);
    let shown = |path: &str| values.get(path).and_then(|s| text.get(s.range()));
    assert_eq!(shown("a"), Some("é"));
    assert_eq!(shown("b"), Some("[1, {c: xyz}]"));
    assert_eq!(shown("b[1].c"), Some("xyz"));
    assert_eq!(keys.get("b[1].c").map(|s| (s.line, s.column)), Some((2, 9)));
}

#[test]
fn a_file_that_is_too_long_is_refused() {
    let text = format!("# {}\na: 1", "x".repeat(MAX_BYTES));
    assert!(parse(&text, "service chain", &mut Vec::new()).is_err());
}

#[test]
fn anchors_inside_anchors_cost_their_copies_only() {
    let nested = |depth: usize| {
        let open: String = (0..depth).map(|i| format!("[&a{i} ")).collect();
        open + "1" + &"]".repeat(depth)
    };
    assert!(tree(&nested(60)).is_some());
    let wide = format!("&a [{}1]", "&b [&c [&d [1, 2], 3], 4], ".repeat(100_000));
    assert!(tree(&wide).is_none());
}

#[test]
fn aliases_stand_for_what_they_name() {
    assert_eq!(tree("a: &x {b: [1]}\nc: *x\n"), oracle("a: {b: [1]}\nc: {b: [1]}\n"));
    let Ok(root) = parse("[&a 1, *a]", "service chain", &mut Vec::new()) else { panic!("not read") };
    let Value::List(items) = root.value else { panic!("not a list") };
    // An error in what an alias stands for is to be shown where it can be mended.
    assert_eq!(items.iter().map(|n| n.span.column).collect::<Vec<_>>(), [5, 5]);
}

fn json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<u64>().prop_map(Json::from),
        (-1e9..1e9f64).prop_map(Json::from),
        "\\PC{0,12}".prop_map(Json::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..5).prop_map(|m| Json::Object(m.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn json_reads_as_itself(value in json()) {
        prop_assert_eq!(tree(&value.to_string()), Some(value));
    }

    #[test]
    fn yaml_reads_as_the_library_reads_it(value in json()) {
        let text = serde_saphyr::to_string(&value).unwrap_or_default();
        prop_assert_eq!(tree(&text), oracle(&text), "{}", text);
    }
}
