//! "Did you mean".

/// Candidates that are compared at most: a file may have thousands of wrong names and thousands of right ones.
const MAX_CANDIDATES: usize = 512;
/// Names are at most 63 bytes; nothing longer is near one.
const MAX_LEN: usize = 64;

/// The candidate nearest to `name`, if one is near.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > MAX_LEN {
        return None;
    }
    let lower = name.to_lowercase();
    // One slip in three letters, two in six, and so on.
    let most = 1 + name.len() / 4;
    candidates
        .into_iter()
        .take(MAX_CANDIDATES)
        .filter(|c| c.len().abs_diff(name.len()) <= most && *c != name)
        .map(|c| (strsim::damerau_levenshtein(&lower, &c.to_lowercase()), c))
        .filter(|(distance, c)| *distance <= most && *distance < c.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

/// [`nearest`] as a sentence.
pub fn did_you_mean<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, candidates).map(|c| format!("did you mean `{c}`?"))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_and_far() {
        assert_eq!(nearest("frewall", ["monitor", "firewall"]), Some("firewall"));
        assert_eq!(nearest("Batch", ["batch", "other"]), Some("batch"));
        assert_eq!(nearest("zz", ["in", "out"]), None);
        assert_eq!(nearest("a", ["b"]), None);
        assert_eq!(nearest(&"a".repeat(1 << 20), ["a"]), None);
    }
}
