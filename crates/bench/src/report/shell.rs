//! Commands as a shell reads them.

/// The words of a command as one line that a POSIX shell takes apart into the same words.
#[must_use]
pub fn quoted(words: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    let one = |word: &String| {
        if !word.is_empty() && word.chars().all(plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    words.iter().map(one).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_shell_gets_the_same_words() {
        let words = ["printf", "%s\\n", "a b", "", "it's", "$(false)", "ü\n*"].map(String::from);
        let line = super::quoted(&words);
        let out = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
        let want: String = words[2..].iter().map(|w| format!("{w}\n")).collect();
        assert_eq!(String::from_utf8(out.stdout).unwrap(), want);
    }
}
