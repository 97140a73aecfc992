//! Makes the code of the gRPC front from its descriptions, without `protoc`.

use std::path::PathBuf;

use prost::Message as _;

fn main() {
    const FILES: [&str; 2] = ["linger/v1/linger.proto", "pb/delay_queue.proto"];
    println!("cargo:rerun-if-changed=proto");
    // A file that is new there is embedded too.
    println!("cargo:rerun-if-changed=dashboard");
    let descriptions = protox::compile(FILES, ["proto"]).expect("the descriptions are right");
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"));
    std::fs::write(out.join("descriptions.bin"), descriptions.encode_to_vec())
        .expect("the folder for generated files can be written to");
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".linger.v1")
        .compile_fds(descriptions)
        .expect("code can be made of them");
}
