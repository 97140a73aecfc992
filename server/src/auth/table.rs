//! What every call needs. A call that does not stand here is for administrators alone, and a test
//! fails until it does.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::Method;

use super::Scope::{self, Add, Admin, Consume, Metrics, Read};

/// What a call needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing: it is for everyone.
    Nothing,
    /// A key, whichever.
    AnyKey,
    /// A key with one of these scopes. If there are several, what the call asks for decides which,
    /// and it looks itself.
    One(&'static [Scope], Of),
}

/// The topics that a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// Those that it names, in its path, its query or its body, or those that it finds: the key
    /// must be for them. What stands in the path is looked at for all calls alike.
    Named,
    /// All: a key for some topics does not do.
    All,
    /// None.
    None,
}

use Needs::{AnyKey, Nothing, One};

/// What is needed for what stands in no table.
pub(crate) const UNKNOWN: Needs = One(&[Admin], Of::All);

const ADD: Needs = One(&[Add], Of::Named);
const CONSUME: Needs = One(&[Consume], Of::Named);
const READ: Needs = One(&[Read], Of::Named);
const READ_ALL: Needs = One(&[Read], Of::All);
const CONTROL: Needs = One(&[Admin], Of::Named);
const ADMIN: Needs = One(&[Admin], Of::All);

/// The calls of HTTP, as the API's description has them.
const HTTP: &[(&str, &str, Needs)] = &[
    ("post", "/v1/jobs", ADD),
    ("get", "/v1/jobs/{id}", READ),
    ("post", "/v1/pop", CONSUME),
    ("get", "/v1/due", READ),
    ("get", "/v1/topics", READ),
    ("get", "/v1/topics/{topic}", READ),
    ("put", "/v1/topics/{topic}", CONTROL),
    ("delete", "/v1/topics/{topic}", CONTROL),
    ("post", "/v1/topics/{topic}/pop", CONSUME),
    ("post", "/v1/topics/{topic}/pause", CONTROL),
    ("post", "/v1/topics/{topic}/resume", CONTROL),
    ("post", "/v1/topics/{topic}/empty", CONTROL),
    ("get", "/v1/topics/{topic}/errors", READ),
    ("post", "/v1/topics/{topic}/finish", CONSUME),
    ("post", "/v1/topics/{topic}/delete", ADD),
    ("post", "/v1/topics/{topic}/run", ADD),
    ("post", "/v1/topics/{topic}/hold", ADD),
    ("post", "/v1/topics/{topic}/unhold", ADD),
    ("post", "/v1/topics/{topic}/redrive", ADD),
    ("get", "/v1/topics/{topic}/jobs", READ),
    ("get", "/v1/topics/{topic}/jobs/{id}", READ),
    ("patch", "/v1/topics/{topic}/jobs/{id}", ADD),
    ("delete", "/v1/topics/{topic}/jobs/{id}", ADD),
    ("get", "/v1/topics/{topic}/jobs/{id}/history", READ),
    ("get", "/v1/topics/{topic}/jobs/{id}/upcoming", READ),
    ("post", "/v1/topics/{topic}/jobs/{id}/finish", CONSUME),
    ("post", "/v1/topics/{topic}/jobs/{id}/fail", CONSUME),
    ("post", "/v1/topics/{topic}/jobs/{id}/release", CONSUME),
    ("post", "/v1/topics/{topic}/jobs/{id}/touch", CONSUME),
    ("post", "/v1/topics/{topic}/jobs/{id}/run", ADD),
    ("post", "/v1/topics/{topic}/jobs/{id}/hold", ADD),
    ("post", "/v1/topics/{topic}/jobs/{id}/unhold", ADD),
    ("get", "/v1/workers", READ),
    ("post", "/v1/workers", CONSUME),
    ("get", "/v1/workers/{worker}", READ),
    ("delete", "/v1/workers/{worker}", CONSUME),
    ("put", "/v1/workers/{worker}/heartbeat", CONSUME),
    ("post", "/v1/workers/{worker}/drain", CONSUME),
    ("get", "/v1/secrets", ADMIN),
    ("post", "/v1/secrets", ADMIN),
    ("delete", "/v1/secrets/{secret}", ADMIN),
    ("get", "/v1/keys", ADMIN),
    ("post", "/v1/keys", ADMIN),
    ("delete", "/v1/keys/{key_id}", ADMIN),
    ("get", "/v1/audit", ADMIN),
    ("get", "/v1/backup", ADMIN),
    ("get", "/v1/config", ADMIN),
    ("put", "/v1/config", ADMIN),
    ("get", "/v1/whoami", AnyKey),
    ("get", "/v1/destinations", READ_ALL),
    ("get", "/v1/events", READ),
    ("get", "/v1/events/sums", READ),
    ("get", "/v1/nodes", One(&[Read], Of::None)),
    ("get", "/v1/stats", READ_ALL),
    ("get", "/v1/alarms", READ_ALL),
    ("get", "/metrics", One(&[Metrics], Of::All)),
    // Probes know no keys, and the pages are what one signs in with.
    ("get", "/healthz", Nothing),
    ("get", "/readyz", Nothing),
    ("get", "/openapi.json", Nothing),
    ("get", "/docs", Nothing),
    ("get", "/docs/{file}", Nothing),
    ("get", "/", Nothing),
    ("get", "/dashboard/{*file}", Nothing),
    // The older dialects: what a command is stands in the request.
    ("post", "/", One(&[Add, Consume], Of::Named)),
    ("post", "/v1/command", One(&[Add, Consume], Of::Named)),
    ("post", "/push", ADD),
    ("post", "/pop", CONSUME),
    ("post", "/finish", CONSUME),
    ("post", "/delete", ADD),
    ("post", "/get", READ),
    ("post", "/task/add", ADD),
    ("get", "/task/get", READ),
    ("post", "/task/get", READ),
    ("get", "/task/get/{uid}", READ),
    ("post", "/task/get/{uid}", READ),
    ("delete", "/task/remove", ADD),
    ("post", "/task/remove", ADD),
    ("delete", "/task/remove/{uid}", ADD),
    ("post", "/task/remove/{uid}", ADD),
];

/// The calls of gRPC.
const GRPC: &[(&str, Needs)] = &[
    ("/linger.v1.Queue/Add", ADD),
    ("/linger.v1.Queue/AddMany", ADD),
    ("/linger.v1.Queue/Get", READ),
    ("/linger.v1.Queue/Update", ADD),
    ("/linger.v1.Queue/Delete", ADD),
    ("/linger.v1.Queue/Pop", CONSUME),
    ("/linger.v1.Queue/Consume", CONSUME),
    ("/linger.v1.Queue/Finish", CONSUME),
    ("/linger.v1.Queue/Fail", CONSUME),
    ("/linger.v1.Queue/Release", CONSUME),
    ("/linger.v1.Queue/Touch", CONSUME),
    ("/linger.v1.Queue/Hold", ADD),
    ("/linger.v1.Queue/Unhold", ADD),
    ("/linger.v1.Queue/Run", ADD),
    ("/linger.v1.Topics/List", READ),
    ("/linger.v1.Topics/Get", READ),
    ("/linger.v1.Topics/Set", CONTROL),
    ("/linger.v1.Topics/Pause", CONTROL),
    ("/linger.v1.Topics/Resume", CONTROL),
    ("/linger.v1.Topics/Empty", CONTROL),
    ("/linger.v1.Topics/Forget", CONTROL),
    ("/linger.v1.Topics/Jobs", READ),
    // To finish is one thing, to change another.
    ("/linger.v1.Topics/Sweep", One(&[Add, Consume], Of::Named)),
    ("/pb.DelayQueue/Add", ADD),
    ("/pb.DelayQueue/Get", READ),
    ("/pb.DelayQueue/Remove", ADD),
    ("/grpc.health.v1.Health/Check", Nothing),
    ("/grpc.health.v1.Health/Watch", Nothing),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Nothing),
    ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Nothing),
];

/// What a call of HTTP needs, by its path in the description.
pub(crate) fn of_http(method: &Method, path: &str) -> Option<Needs> {
    static BY_CALL: LazyLock<HashMap<(&str, &str), Needs>> = LazyLock::new(|| {
        HTTP.iter().map(|(method, path, needs)| ((*method, *path), *needs)).collect()
    });
    let method = match *method {
        // Whoever may look may ask whether there is anything to see.
        Method::GET | Method::HEAD => "get",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => return None,
    };
    BY_CALL.get(&(method, path)).copied()
}

/// What a call of gRPC needs, by its path.
pub(crate) fn of_grpc(path: &str) -> Option<Needs> {
    static BY_PATH: LazyLock<HashMap<&str, Needs>> =
        LazyLock::new(|| GRPC.iter().copied().collect());
    BY_PATH.get(path).copied()
}

impl Needs {
    /// The scopes that do, any one of them; none if it is no matter of scopes.
    pub(crate) fn scopes(self) -> &'static [Scope] {
        match self {
            Nothing | AnyKey => &[],
            One(scopes, _) => scopes,
        }
    }

    /// Whether it is for those alone who administer.
    pub(crate) fn is_admin(self) -> bool {
        self.scopes() == [Admin]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_stands_in_the_table_once() {
        let mut seen = std::collections::HashSet::new();
        assert!(HTTP.iter().all(|(method, path, _)| seen.insert((*method, *path))));
        assert!(GRPC.iter().all(|(path, _)| seen.insert(("grpc", *path))));
        assert_eq!(of_http(&Method::HEAD, "/metrics"), Some(One(&[Metrics], Of::All)));
        assert_eq!(of_http(&Method::PUT, "/metrics"), None);
    }

    #[test]
    fn every_call_of_the_descriptions_stands_in_the_table() {
        use prost::Message as _;
        let files = prost_types::FileDescriptorSet::decode(crate::proto::DESCRIPTIONS).unwrap();
        let mut count = 0;
        for file in &files.file {
            for service in file.service.iter().filter(|service| service.name() != "Callback") {
                for method in &service.method {
                    let (package, service) = (file.package(), service.name());
                    let path = format!("/{package}.{service}/{}", method.name());
                    assert!(of_grpc(&path).is_some(), "{path} is in no table");
                    count += 1;
                }
            }
        }
        assert!(count > 20, "{count}");
    }
}
