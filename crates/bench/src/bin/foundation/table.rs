//! The figures for the eye.

use chainline_bench::figures::table::{new, row};
use chainline_bench::figures::{Figure, Goal, Named};
use comfy_table::Table;

/// One line a figure.
pub fn render(figures: &[Named], orders: &[(String, Figure)], instructions: &[(String, Figure)]) -> Table {
    let mut table = new();
    for f in figures {
        table.add_row(row(&f.name, &f.figure, f.goal));
        if f.name == "shared_core_ratio_min" {
            for (order, figure) in orders {
                table.add_row(row(&format!("  {order}"), figure, Goal::None));
            }
        }
    }
    for (nf, figure) in instructions {
        table.add_row(row(&format!("instructions_per_packet.{nf}"), figure, Goal::None));
    }
    table
}
