//! The JSON Schema of the protocol.

use crate::answer::{Changed, Overview, Reply, Stats};
use crate::request::{Call, Id};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// A request as a whole: a line to the socket.
#[derive(Serialize, JsonSchema)]
struct Request {
    /// Comes back with the reply.
    id: Option<Id>,
    #[serde(flatten)]
    call: Call,
}

/// The JSON Schema (draft 2020-12): a line to the socket is a `Request`, a line from it a `Reply`.
#[must_use]
pub fn schema() -> Value {
    let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    let (request, reply) = (generator.subschema_for::<Request>(), generator.subschema_for::<Reply>());
    for result in [generator.subschema_for::<Overview>(), generator.subschema_for::<Stats>()] {
        drop(result);
    }
    drop(generator.subschema_for::<Changed>());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Control socket of chainline run",
        "description": "A line to the socket is a Request, a line from it is a Reply, whose result is by method.",
        "anyOf": [request, reply],
        "$defs": generator.take_definitions(true),
    })
}
