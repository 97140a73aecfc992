//! Who is in Eureka, read from its list of applications: those that are up and say in their metadata
//! for which topics they can be called.

use std::collections::HashSet;
use std::net::Ipv6Addr;

use linger::error::{Error, Result};
use linger::job::Id;
use serde_json::Value;

use crate::registry::{LEASE_MAX, Registration};

/// The topics that an instance serves, with commas between them.
const TOPICS: &str = "linger.topics";
/// Where it is called.
const PATH: &str = "linger.path";

/// Who was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) workers: Vec<(Id, Registration)>,
    /// What is wrong with others.
    pub(super) wrong: Vec<String>,
}

/// Reads the answer to `GET /apps`.
pub(super) fn read_apps(answer: &[u8]) -> std::result::Result<Found, String> {
    let answer: Value = serde_json::from_slice(answer)
        .map_err(|cause| format!("answered with what is no JSON: {cause}"))?;
    let apps = answer["applications"].as_object().ok_or("answered without any `applications`")?;
    let mut found = Found::default();
    for app in many(apps.get("application")) {
        for instance in many(app.get("instance")) {
            let Some(topics) = instance["metadata"][TOPICS].as_str() else { continue };
            if instance["status"] != "UP" {
                continue;
            }
            match worker(app, instance, topics) {
                Ok(one) => found.workers.push(one),
                Err(why) => {
                    let [app, id] = [&app["name"], &instance["instanceId"]];
                    found.wrong.push(format!("instance {id} of {app}: {why}"));
                }
            }
        }
    }
    found.workers.sort_by(|(a, _), (b, _)| a.cmp(b));
    // One that came back by another id before the old one was forgotten is still one.
    let mut places = HashSet::new();
    found.workers.retain(|(_, one)| places.insert(one.place()));
    Ok(found)
}

/// What some servers write alone if it is one.
fn many(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::Array(all)) => all,
        Some(one @ Value::Object(_)) => std::slice::from_ref(one),
        _ => &[],
    }
}

fn worker(app: &Value, instance: &Value, topics: &str) -> Result<(Id, Registration)> {
    let app = app["name"].as_str().or_else(|| instance["app"].as_str()).unwrap_or_default();
    let named = ["instanceId", "hostName", "ipAddr"].map(|name| text(instance, name));
    let [id, host, ip] = named;
    let id: Id = format!("eureka:{app}:{}", id.or(host).unwrap_or_default()).parse()?;
    let topics = topics.split(',').map(str::trim).filter(|topic| !topic.is_empty());
    let topics = topics.map(str::parse).collect::<Result<_>>()?;
    let host = host.or(ip).ok_or_else(|| Error::invalid("url", "it names no host"))?;
    let url = url(host, instance)?.parse()?;
    let new = Registration::new(Some(id.clone()), app.parse()?, topics, url, LEASE_MAX)?;
    Ok((id, new))
}

fn text<'a>(instance: &'a Value, name: &str) -> Option<&'a str> {
    instance[name].as_str().filter(|text| !text.is_empty())
}

fn url(host: &str, instance: &Value) -> Result<String> {
    let (scheme, port) = match (port(&instance["port"]), port(&instance["securePort"])) {
        (Some(port), _) => ("http", port),
        (None, Some(port)) => ("https", port),
        (None, None) => return Err(Error::invalid("url", "it has no port that is enabled")),
    };
    let path = instance["metadata"][PATH].as_str().unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok(match host.parse::<Ipv6Addr>() {
        Ok(host) => format!("{scheme}://[{host}]:{port}{slash}{path}"),
        Err(_) => format!("{scheme}://{host}:{port}{slash}{path}"),
    })
}

/// A port, written as `{"$": 8080, "@enabled": "true"}`, if it is enabled.
fn port(value: &Value) -> Option<u16> {
    let is_enabled = match &value["@enabled"] {
        Value::String(text) => text.eq_ignore_ascii_case("true"),
        other => *other == true,
    };
    let number = match &value["$"] {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64().and_then(|number| u16::try_from(number).ok()),
    };
    number.filter(|_| is_enabled)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn instance(id: &str, change: Value) -> Value {
        let mut instance = json!({
            "instanceId": id, "hostName": "shop-1", "app": "SHOP", "ipAddr": "10.0.0.7",
            "status": "UP", "port": {"$": 8080, "@enabled": "true"},
            "securePort": {"$": 443, "@enabled": "false"},
            "metadata": {"linger.topics": "order.close, mail,", "linger.path": "jobs"},
        });
        for (name, value) in change.as_object().unwrap() {
            instance[name] = value.clone();
        }
        instance
    }

    fn read(instances: Value) -> Found {
        let app = json!({"name": "SHOP", "instance": instances});
        let answer = json!({"applications": {"application": app}});
        read_apps(answer.to_string().as_bytes()).unwrap()
    }

    /// The URLs of those who can be called, and what is wrong with the others.
    fn found(instances: Value) -> (Vec<String>, Vec<String>) {
        let Found { workers, wrong } = read(instances);
        (workers.iter().map(|(_, one)| one.place().1.to_string()).collect(), wrong)
    }

    #[test]
    fn an_instance_that_is_up_is_called_where_it_says() {
        let both = json!({"port": {"$": "80", "@enabled": true}});
        let secure = json!({
            "port": {"$": 80, "@enabled": "false"}, "securePort": {"$": 8443, "@enabled": "true"},
            "metadata": {"linger.topics": "a"},
        });
        for (change, url) in [
            (json!({}), "http://shop-1:8080/jobs"),
            (both, "http://shop-1:80/jobs"),
            (secure, "https://shop-1:8443/"),
            (json!({"hostName": ""}), "http://10.0.0.7:8080/jobs"),
            (json!({"hostName": "fe::1"}), "http://[fe::1]:8080/jobs"),
        ] {
            // Alone or in a list.
            let one = instance("a", change);
            assert_eq!(found(one.clone()), (vec![url.to_owned()], vec![]), "{one}");
            assert_eq!(found(json!([one])).0, [url]);
        }
        let one = read(instance("h:shop:1", json!({}))).workers.remove(0);
        assert_eq!(one.0.as_str(), "eureka:SHOP:h:shop:1");
    }

    #[test]
    fn whoever_is_not_up_or_serves_no_topics_is_passed_over() {
        for state in ["DOWN", "STARTING", "OUT_OF_SERVICE", "UNKNOWN"] {
            assert_eq!(found(instance("a", json!({"status": state}))), (vec![], vec![]));
        }
        let other = json!({"metadata": {"@class": "java.util.Collections$EmptyMap"}});
        assert_eq!(found(instance("a", other)), (vec![], vec![]));
        let none = br#"{"applications":{"versions__delta":"1","application":[]}}"#;
        assert!(read_apps(none).unwrap().workers.is_empty());
    }

    #[test]
    fn one_that_cannot_be_called_says_why_and_the_others_are() {
        for (change, why) in [
            (json!({"metadata": {"linger.topics": " , "}}), "topics is empty"),
            (json!({"port": {"$": 8080, "@enabled": "false"}}), "it has no port"),
            (json!({"hostName": "", "ipAddr": ""}), "it names no host"),
            (json!({"hostName": "a b"}), "is none that can be called"),
        ] {
            let (urls, wrong) = found(json!([instance("a", change), instance("b", json!({}))]));
            assert_eq!(urls, ["http://shop-1:8080/jobs"]);
            assert!(wrong[0].starts_with(r#"instance "a" of "SHOP": "#), "{wrong:?}");
            assert!(wrong[0].contains(why), "{wrong:?}");
        }
    }

    #[test]
    fn one_that_is_there_twice_is_one() {
        let again = json!([instance("b", json!({})), instance("a", json!({}))]);
        let workers = read(again).workers;
        assert_eq!(workers.len(), 1);
        assert_eq!(workers[0].0.as_str(), "eureka:SHOP:a");
    }

    #[test]
    fn what_is_no_list_of_applications_is_refused() {
        for bad in ["", "<applications/>", "[]", "{}", r#"{"applications":1}"#] {
            assert!(read_apps(bad.as_bytes()).unwrap_err().starts_with("answered with"), "{bad}");
        }
    }
}
