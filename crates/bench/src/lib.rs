//! Measures dataplanes: ours and others, with the same packets, on the same cores, by the same search. What comes out
//! are [`results::Results`]: every raw trial, and sections of figures made from them, which `report` shows to people
//! and `diff` compares.
//!
//! | step | where |
//! |---|---|
//! | a dataplane is started, and measured by trials | `dataplane` |
//! | other dataplanes are started, asked, stopped, by adapter files | `rivals` |
//! | what others did on the host meanwhile | `host` |
//! | trials and figures, as they are kept | `results` |
//! | files and the page made of them | `report` |

#![forbid(unsafe_code)]

pub mod dataplane;
pub mod host;
pub mod report;
pub mod results;
pub mod rivals;
