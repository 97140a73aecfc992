//! What is made of the descriptions in `server/proto`: messages, and both ends of the services.

/// The descriptions themselves, for those who ask.
pub const DESCRIPTIONS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.bin"));

/// Package `linger.v1`.
pub mod linger {
    #![allow(missing_docs, unreachable_pub, clippy::all)]
    tonic::include_proto!("linger.v1");
}

/// Package `pb`: the second lineage's service.
pub mod tasks {
    #![allow(missing_docs, unreachable_pub, clippy::all)]
    tonic::include_proto!("pb");
}
