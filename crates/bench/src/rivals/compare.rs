//! Dataplanes side by side: which, with which ports, with which frames; what of it this host cannot do; and the
//! sections that show it.

use super::adapter::{PortKind, Spec};
use super::builtin;
use super::rival::{Cores, Rival};
use super::started::check;
use super::tester::Traffic;
use crate::dataplane::steered::Asked;
use crate::dataplane::{Dataplane, DataplaneError};
use crate::results::View as Drawn;
use crate::run::{Case, Lab, View};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Frame sizes that are measured if nobody says: smallest, middle and largest of a usual Ethernet, with FCS.
pub const FRAME_BYTES: &[u16] = &[64, 512, 1518];
/// Flows if nobody says: more than one, so that no cache of one flow answers for all.
pub const FLOWS: u32 = 100;
/// Nothing between the tester's ports.
pub const PORT_ALONE: &str = "port alone";
/// The load at which latencies are compared, in frames a second: low enough for whoever forwards at all.
pub const LATENCY_PPS: f64 = 20_000.0;

/// What competes.
#[derive(Clone, Debug)]
pub struct Contestant {
    /// Its name.
    pub name: String,
    /// How it is used; `None` for the port alone.
    pub spec: Option<Spec>,
}

/// Why names cannot be made contestants.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    /// No such dataplane.
    #[error("found no dataplane \"{name}\", expected one of {known}{}", help.as_deref().map(|h| format!("; {h}")).unwrap_or_default())]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
        /// What may have been meant.
        help: Option<String>,
    },
    /// A file describes what has the name of another.
    #[error("found two dataplanes called \"{0}\", expected another `metadata.name`")]
    Twice(String),
    /// Nothing to measure.
    #[error("none of these dataplanes can be measured over {0}")]
    Nothing(String),
}

/// The built-in dataplanes of these names, all if there are none, then those of files.
///
/// # Errors
/// Names that are unknown or there twice.
pub fn choose(names: &[String], files: Vec<(String, Spec)>) -> Result<Vec<Contestant>, ChoiceError> {
    let known = || builtin::FILES.iter().map(|(n, _)| *n);
    let all: Vec<String> = known().map(str::to_owned).collect();
    // Whoever brings files and names nobody compares them with all.
    let names = if names.is_empty() { &all } else { names };
    let mut chosen = vec![Contestant { name: PORT_ALONE.into(), spec: None }];
    for name in names {
        let spec = builtin::get(name).ok_or_else(|| ChoiceError::Unknown {
            name: name.clone(),
            known: all.join(", "),
            help: chainline_chain::document::did_you_mean(name, known()),
        })?;
        chosen.push(Contestant { name: name.clone(), spec: Some(spec) });
    }
    chosen.extend(files.into_iter().map(|(name, spec)| Contestant { name, spec: Some(spec) }));
    for (i, c) in chosen.iter().enumerate() {
        if chosen[..i].iter().any(|other| other.name == c.name) {
            return Err(ChoiceError::Twice(c.name.clone()));
        }
    }
    Ok(chosen)
}

/// Everything that is measured.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What competes.
    pub contestants: Vec<Contestant>,
    /// Over which ports.
    pub ports: Vec<PortKind>,
    /// With which frames.
    pub frame_bytes: Vec<u16>,
    /// In how many flows.
    pub flows: u32,
    /// On which cores.
    pub cores: Cores,
    /// This program.
    pub chainline: PathBuf,
    /// Whether the user wants an end.
    pub stop: Asked,
}

impl Comparison {
    /// The cases, with those that this host cannot do. What is compared stands side by side: all dataplanes of one
    /// port and frame size, then the next.
    ///
    /// # Errors
    /// When there is nothing to measure.
    pub fn cases(&self) -> Result<Vec<Case>, ChoiceError> {
        let mut cases = Vec::new();
        let one_core = self.cores.shared();
        for kind in &self.ports {
            for frame_bytes in &self.frame_bytes {
                for c in &self.contestants {
                    if c.spec.as_ref().is_some_and(|s| !s.ports.contains(kind)) {
                        continue;
                    }
                    let missing = c.spec.as_ref().and_then(|s| check(&c.name, s).err());
                    let missing = missing.map(|e| match e {
                        DataplaneError::Unavailable { why, .. } => why,
                        e => e.to_string(),
                    });
                    cases.push(Case {
                        name: format!("{} over {}, {frame_bytes} B", c.name, kind.word()),
                        dataplane: c.name.clone(),
                        factors: BTreeMap::from([
                            ("frame_bytes".into(), json!(frame_bytes)),
                            ("ports".into(), json!(kind.word())),
                        ]),
                        content: json!({
                            "adapter": c.spec,
                            "flows": self.flows,
                            "cores": [self.cores.tester, self.cores.dataplane.first()],
                        }),
                        unavailable: missing.or(one_core.clone()),
                        ..Case::default()
                    });
                }
            }
        }
        let others = cases.iter().any(|c| c.dataplane != PORT_ALONE);
        let words = self.ports.iter().map(|k| k.word()).collect::<Vec<_>>().join(", ");
        if others { Ok(cases) } else { Err(ChoiceError::Nothing(words)) }
    }

    /// The sections: throughput by frame size and latency, for each kind of port.
    #[must_use]
    pub fn views(&self, measures: &[&str]) -> Vec<View> {
        let mut views = Vec::new();
        for kind in &self.ports {
            let word = kind.word();
            for measure in measures {
                let latency = *measure == "latency";
                let title = if latency {
                    format!("Latency over {word} at {LATENCY_PPS:.0} frames/s")
                } else {
                    format!("{} over {word}, by frame size", measure.to_uppercase())
                };
                views.push(View {
                    id: format!("compare-{word}-{measure}").replace(['.', '_'], "-"),
                    title,
                    definition: self.definition(*kind, latency),
                    y: (*measure).to_owned(),
                    x: (!latency).then(|| "frame_bytes".into()),
                    only: BTreeMap::from([("ports".into(), json!(word))]),
                    drawn: (!latency).then_some(Drawn::Lines),
                    ..View::default()
                });
            }
        }
        views
    }

    fn definition(&self, kind: PortKind, latency: bool) -> String {
        let port = match kind {
            PortKind::Veth => {
                "Frames go over a veth pair to the dataplane and back over another; both sides use packet sockets, or \
                 the dataplane is the kernel itself, whose work a thread of its own does on the dataplane's core."
            }
            PortKind::AfXdp => "Frames go over a veth pair to the dataplane and back over another, by AF_XDP sockets.",
            PortKind::Memif => "Frames go by memif, memory that tester and dataplane share, copied on each side.",
        };
        let figure = if latency {
            "From the time at which a frame should have been sent to its arrival."
        } else {
            "Frames that arrive, by the measure's own rule."
        };
        format!(
            "{figure} {port} \"{PORT_ALONE}\" has nothing between the tester's two ports: what tester and port cost \
             without a dataplane. {} flows. Tester on core {}, dataplane on core {}. Each trial is counted by the \
             dataplane too; where the two differ by more than 1 % the trial does not count.",
            self.flows,
            self.cores.tester,
            self.core()
        )
    }

    /// The dataplane's core.
    fn core(&self) -> usize {
        self.cores.dataplane.first().copied().unwrap_or(0)
    }

    /// What each contestant says its version is; `null` where it is not installed or does not say. Asked in a lab,
    /// where nobody who answers leaves anything behind.
    #[must_use]
    pub fn versions(&self) -> Value {
        let lab = super::lab::Lab::new(PortKind::Memif).ok();
        let version = |c: &Contestant| {
            let (lab, spec) = (lab.as_ref()?, c.spec.as_ref()?);
            let values = lab.values(self.core(), &self.chainline);
            super::started::version(spec, &values, |program| {
                let mut command = lab.inside(&lab.dataplane());
                command.arg(program);
                command
            })
        };
        let all = self.contestants.iter().filter(|c| c.spec.is_some());
        Value::Object(all.map(|c| (c.name.clone(), version(c).map_or(Value::Null, Value::from))).collect())
    }
}

impl Lab for Comparison {
    fn start(&mut self, case: &Case) -> Result<Box<dyn Dataplane>, DataplaneError> {
        let unknown = || DataplaneError::Unavailable { what: case.name.clone(), why: "no such case".into() };
        let contestant = self.contestants.iter().find(|c| c.name == case.dataplane).ok_or_else(unknown)?;
        let word = case.factors.get("ports").and_then(Value::as_str).unwrap_or_default();
        let (_, kind) = PortKind::WORDS.iter().find(|(w, _)| *w == word).ok_or_else(unknown)?;
        let bytes = case.factors.get("frame_bytes").and_then(Value::as_u64);
        let frame_bytes = bytes.and_then(|b| u16::try_from(b).ok()).ok_or_else(unknown)?;
        let traffic = Traffic::new(frame_bytes, self.flows);
        let (name, spec) = (&contestant.name, contestant.spec.as_ref());
        let rival = Rival::start(name, spec, *kind, &traffic, &self.cores, &self.chainline, self.stop)?;
        Ok(Box::new(rival))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(names: &[&str], ports: &[PortKind]) -> Comparison {
        let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
        Comparison {
            contestants: choose(&names, Vec::new()).unwrap(),
            ports: ports.to_vec(),
            frame_bytes: vec![64, 1518],
            flows: FLOWS,
            cores: Cores { tester: 0, dataplane: vec![1] },
            chainline: "/nowhere/chainline".into(),
            stop: || false,
        }
    }

    #[test]
    fn the_port_alone_is_measured_beside_everybody() {
        let cases = comparison(&["kernel", "testpmd-io"], &[PortKind::Veth, PortKind::Memif]).cases().unwrap();
        let names: Vec<_> = cases.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "port alone over veth, 64 B",
                "kernel over veth, 64 B",
                "testpmd-io over veth, 64 B",
                "port alone over veth, 1518 B",
                "kernel over veth, 1518 B",
                "testpmd-io over veth, 1518 B",
                "port alone over memif, 64 B",
                "testpmd-io over memif, 64 B",
                "port alone over memif, 1518 B",
                "testpmd-io over memif, 1518 B",
            ]
        );
    }

    #[test]
    fn wrong_choices_are_refused() {
        let error = choose(&["testpmd".into()], Vec::new()).unwrap_err().to_string();
        assert!(error.starts_with("found no dataplane \"testpmd\", expected one of chainline, "), "{error}");
        let spec = builtin::get("kernel").unwrap();
        let error = choose(&["kernel".into()], vec![("kernel".into(), spec)]).unwrap_err();
        assert!(matches!(error, ChoiceError::Twice(_)));
        let error = comparison(&["kernel"], &[PortKind::Memif]).cases().unwrap_err();
        assert_eq!(error.to_string(), "none of these dataplanes can be measured over memif");
    }

    #[test]
    fn what_cannot_be_done_here_is_a_case_that_says_so() {
        let mut one_core = comparison(&["kernel"], &[PortKind::Veth]);
        one_core.cores.dataplane = vec![0];
        assert!(one_core.cases().unwrap().iter().all(|c| c.unavailable.is_some()));
        let mut missing = comparison(&["kernel"], &[PortKind::Veth]);
        for c in &mut missing.contestants {
            c.spec.iter_mut().for_each(|s| s.needs.programs = vec!["no-such-program-here".into()]);
        }
        let cases = missing.cases().unwrap();
        assert!(cases.iter().filter(|c| c.dataplane == "kernel").all(|c| c.unavailable.is_some()));
        assert!(cases.iter().filter(|c| c.dataplane == PORT_ALONE).all(|c| c.unavailable.is_none()));
    }
}
