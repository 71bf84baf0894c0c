//! What an operator writes to describe traffic: a genome, a distribution of frame sizes, a histogram of flow lengths.
//! Refused at a place that is there, or traffic comes of it.

use chainline_workload::{Histogram, Lengths, Mix, Spec, TextError, Workload, genome as read_genome};

/// A genome, with sizes for `z` and `A`.
pub fn genome(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match read_genome(text, &[('z', 9018), ('A', 78)]) {
        Ok(mix) => sends(Spec::new(mix)),
        Err(e) => {
            let words = e.to_string();
            let at: usize = words
                .strip_prefix("character ")
                .and_then(|rest| rest.split(':').next())
                .map_or(0, |n| n.parse().unwrap());
            assert!(at <= text.chars().count(), "{words}");
        }
    }
}

/// A distribution of frame sizes.
pub fn mix_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Mix::parse(text) {
        Ok(mix) => sends(Spec::new(mix)),
        Err(e) => at_a_place(text, &e),
    }
}

/// A histogram of flow lengths.
pub fn histogram(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Histogram::parse(text) {
        Ok(histogram) => {
            assert!(histogram.mean() >= 1.0 && histogram.mean() <= f64::from(u32::MAX));
            let mix = Mix::constant(64).unwrap();
            sends(Spec { flows: 3, lengths: Some(Lengths::Measured(histogram)), ..Spec::new(mix) });
        }
        Err(e) => at_a_place(text, &e),
    }
}

fn at_a_place(text: &str, e: &TextError) {
    assert!(e.line <= text.lines().count() && (e.line > 0 || e.field == 0), "{e}");
}

/// What was read can be sent, in sizes of the mix.
fn sends(spec: Spec) {
    let sizes: Vec<u16> = spec.mix.sizes().to_vec();
    assert!(spec.mix.mean_frame_bytes() >= 64.0 && spec.mix.mean_frame_bytes() <= 9022.0);
    let mut workload = Workload::new(&spec).unwrap();
    workload.burst(100, |frame| assert!(sizes.contains(&(frame.len + 4)), "{}", frame.len));
}
