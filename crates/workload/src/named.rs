//! Mixes that have a name. "IMIX" alone has no single meaning (RFC 6985 §1), so each has its own and its definition.

/// A mix with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedMix {
    /// How files call it.
    pub name: &'static str,
    /// Frame sizes in bytes with FCS, and weights.
    pub parts: &'static [(u16, u32)],
    /// What it is and who says so.
    pub definition: &'static str,
}

/// All of them.
pub const NAMED: &[NamedMix] = &[
    NamedMix {
        name: "simple-imix",
        parts: &[(64, 7), (570, 4), (1518, 1)],
        definition: "Simple IMIX: 7 of 64, 4 of 570, 1 of 1518 bytes",
    },
    NamedMix {
        name: "csit-imix",
        parts: &[(64, 28), (570, 16), (1518, 4)],
        definition: "FD.io CSIT: 28 of 64, 16 of 570, 4 of 1518 bytes (mean 353.83)",
    },
    NamedMix {
        name: "imix-594",
        parts: &[(64, 7), (594, 4), (1518, 1)],
        definition: "the IMIX of many traffic generators: 7 of 64, 4 of 594, 1 of 1518 bytes",
    },
    // Roy et al., "Inside the Social Network's (Datacenter) Network" (SIGCOMM 2015), is what Niu et al., "Benchmarking
    // NFV Software Dataplanes" §4, sampled. The trace is not public; what Niu et al. print of it is met: a median of about
    // 120 bytes, most frames under 256, and 8.662 Mpps at 10 Gbit/s, which is a mean of 144.3 bytes on the wire (143.8 here).
    NamedMix {
        name: "datacenter-small",
        parts: &[(64, 15), (80, 13), (100, 18), (120, 20), (140, 17), (180, 11), (250, 5), (570, 1)],
        definition: "small packets of a data centre's web servers: 15 of 64, 13 of 80, 18 of 100, 20 of 120, 17 of 140, \
                     11 of 180, 5 of 250, 1 of 570 bytes (median 120, mean 123.8), after what Niu et al. print of Roy et al.",
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::Mix;

    fn mix(name: &str) -> Mix {
        let named = NAMED.iter().find(|m| m.name == name).unwrap();
        let parts: Vec<_> = named.parts.iter().map(|&(size, w)| (u32::from(size), w)).collect();
        Mix::weighted(&parts).unwrap()
    }

    #[test]
    fn definitions_say_what_the_numbers_are() {
        for named in NAMED {
            for (size, weight) in named.parts {
                let part = format!("{weight} of {size}");
                assert!(named.definition.contains(&part), "{}: {part}", named.name);
            }
            assert_eq!(mix(named.name).sizes().len(), named.parts.len());
        }
    }

    #[test]
    fn the_data_centre_s_mix_is_what_niu_et_al_print() {
        let mix = mix("datacenter-small");
        assert_eq!(mix.median_frame_bytes(), 120);
        let wire = 10e9 / 8.0 / (mix.mean_frame_bytes() + 20.0);
        assert!((wire / 8.662e6 - 1.0).abs() < 0.005, "{wire}");
        let small: u64 = mix.sizes().iter().zip(mix.weights()).filter(|(s, _)| **s < 256).map(|(_, w)| w).sum();
        assert_eq!((small, mix.weights().iter().sum::<u64>()), (99, 100));
    }
}
