//! The command `chainline`, run as a user runs it.
