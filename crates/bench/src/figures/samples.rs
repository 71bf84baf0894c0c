//! What the rounds saw, by name a value for each round, and what disturbed them.

use super::Sample;
use crate::host::Ticks;
use serde_json::Value;
use std::collections::BTreeMap;

/// What was seen: by name a value for each round.
#[derive(Debug, Default)]
pub struct Samples {
    values: BTreeMap<String, Vec<Sample>>,
    /// Why there is no value.
    pub unavailable: BTreeMap<String, String>,
    /// Of the last report.
    pub environment: Value,
    /// What others did during all trials that count.
    pub ticks: Ticks,
    /// How many trials count although others disturbed them each time, by trial and disturbance.
    pub spoiled: BTreeMap<String, usize>,
    /// How many trials count.
    pub trials: usize,
}

impl Samples {
    /// Adds the value of one more round.
    pub fn add(&mut self, name: &str, value: f64, disturbed: bool) {
        self.values.entry(name.to_owned()).or_default().push(Sample { value, disturbed });
    }

    /// The values of a name, in the order of the rounds.
    #[must_use]
    pub fn get(&self, name: &str) -> &[Sample] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    /// Sets the values of a name.
    pub fn put(&mut self, name: &str, values: &[f64]) {
        self.values.insert(name.to_owned(), values.iter().map(|&value| Sample { value, disturbed: false }).collect());
    }

    /// Takes note of a trial that counts.
    pub fn trial(&mut self, label: &str, environment: &Value, ticks: Ticks) {
        self.trials += 1;
        self.environment = environment.clone();
        self.ticks.stolen += ticks.stolen;
        self.ticks.all += ticks.all;
        self.ticks.foreign += ticks.foreign;
        if let Some(why) = ticks.spoil() {
            *self.spoiled.entry(format!("{label}: {why}")).or_default() += 1;
        }
    }

    /// What a reader of the table must know; `file` has all figures.
    #[must_use]
    pub fn warnings(&self, file: &str) -> Vec<String> {
        let (pages, ticks) = (&self.environment["pages"], self.ticks);
        let (stolen, foreign) = (100.0 * ticks.stolen_share(), 100.0 * ticks.foreign_share());
        let mut warnings =
            vec![format!("packet buffers on {pages} pages; stolen {stolen:.1} %, other programs {foreign:.1} %")];
        let disturbed: usize = self.spoiled.values().sum();
        if disturbed > 0 {
            let all = self.trials;
            warnings.push(format!(
                "WARNING: {disturbed} of {all} trials were disturbed by others each time they were tried; rounds with \
                 others are left out ({file} names them)"
            ));
        }
        if self.environment["optimised"] != true {
            warnings.push("WARNING: the program is not an optimised build; these figures mean little".into());
        }
        warnings
    }
}

/// Where a round begins: all over a list of `count`, whatever the number of rounds.
#[must_use]
pub fn first_of(round: usize, rounds: usize, count: usize) -> usize {
    round * count / rounds.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_begin_all_over_the_list() {
        let firsts: Vec<_> = (0..5).map(|r| first_of(r, 5, 14)).collect();
        assert_eq!(firsts, [0, 2, 5, 8, 11]);
    }

    #[test]
    fn what_others_did_is_said() {
        let mut samples = Samples::default();
        samples.trial("a", &serde_json::json!({"optimised": true}), Ticks { stolen: 9, foreign: 0, all: 100 });
        let words = samples.warnings("results.json").join("\n");
        assert!(words.contains("stolen 9.0 %") && words.contains("1 of 1 trials"), "{words}");
    }
}
