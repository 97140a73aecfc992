//! The environment that keeps a RabbitMQ to its own folder and to loopback; `linger-bench` has it, too.

use std::path::Path;

/// Where it listens, and where it is found and called by other nodes, which it insists on.
pub(crate) struct Ports {
    pub(crate) broker: u16,
    pub(crate) epmd: u16,
    pub(crate) between: u16,
}

/// What to start it with. Its settings are in the file `rabbitmq.conf`, its plugins in `plugins`.
pub(crate) fn of(home: &Path, ports: Ports) -> Vec<(String, String)> {
    let at = |name: &str| home.join(name).display().to_string();
    [
        ("HOME", at("")),
        ("ERL_EPMD_PORT", ports.epmd.to_string()),
        ("RABBITMQ_NODENAME", format!("linger-{}@localhost", ports.broker)),
        ("RABBITMQ_DIST_PORT", ports.between.to_string()),
        ("RABBITMQ_CONFIG_FILE", at("rabbitmq.conf")),
        ("RABBITMQ_CONF_ENV_FILE", at("none")),
        ("RABBITMQ_ENABLED_PLUGINS_FILE", at("plugins")),
        ("RABBITMQ_MNESIA_BASE", at("data")),
        ("RABBITMQ_LOG_BASE", at("logs")),
        (
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "-kernel inet_dist_use_interface {127,0,0,1}".into(),
        ),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}
