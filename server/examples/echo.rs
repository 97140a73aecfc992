//! A bare JSON echo: what HTTP and JSON cost by themselves, for `linger-bench http` to compare with.

use axum::Router;
use axum::extract::Json;
use axum::routing::post;
use axum::serve::ListenerExt;

// As the server's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
    axum::serve(listener, Router::new().route("/v1/jobs", post(echo))).await
}

async fn echo(Json(value): Json<serde_json::Value>) -> Json<serde_json::Value> {
    Json(value)
}
