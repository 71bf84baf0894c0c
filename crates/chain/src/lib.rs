//! The chain file: model, checks, plan. Pure: reads no host, opens no device.

#![forbid(unsafe_code)]

pub mod plan;
