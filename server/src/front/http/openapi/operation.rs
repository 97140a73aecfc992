//! One call of the API, as its description tells it.

use axum::http::StatusCode;
use linger::error::Code;
use serde_json::{Map, Value, json};

use super::KEY;
use crate::auth::table::{self, Needs};
use crate::front::http::error::status_of;

/// A method and a path, what goes in, and everything that may come out.
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    about: Map<String, Value>,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: Map<String, Value>,
}

/// What every call may be refused for, before its route has looked at it.
const BY_ANYONE: &[Code] = &[Code::Forbidden];
/// What every call that asks the store may be refused for.
const BY_THE_STORE: &[Code] =
    &[Code::Invalid, Code::Overloaded, Code::Unavailable, Code::StorageFailed];

/// What every call that needs a key may be refused for.
const BY_THE_GUARD: &[Code] = &[Code::Unauthorized, Code::RateLimited, Code::Unavailable];

impl Operation {
    /// A call, known to clients by `id`.
    pub(crate) fn new(
        method: &'static str,
        path: &'static str,
        id: &'static str,
        summary: &'static str,
    ) -> Operation {
        let mut about = Map::new();
        about.insert("operationId".into(), id.into());
        about.insert("summary".into(), summary.into());
        let parameters =
            ["topic", "id"].iter().filter(|name| path.contains(&format!("{{{name}}}")));
        let parameters = parameters
            .map(|name| json!({"$ref": format!("#/components/parameters/{name}")}))
            .collect();
        let (body, answers) = (None, Map::new());
        Operation { method, path, about, parameters, body, answers }.refuses(BY_ANYONE)
    }

    /// More than fits into its summary.
    pub(crate) fn note(mut self, text: &'static str) -> Operation {
        self.about.insert("description".into(), text.into());
        self
    }

    /// The group that it stands in.
    pub(crate) fn tag(mut self, tag: &'static str) -> Operation {
        self.about.insert("tags".into(), json!([tag]));
        self
    }

    /// Something that may stand behind the question mark; empty is the same as missing.
    pub(crate) fn asks(
        mut self,
        name: &str,
        about: &str,
        schema: Value,
        example: Value,
    ) -> Operation {
        self.parameters.push(json!({
            "name": name, "in": "query", "allowEmptyValue": true,
            "description": about, "schema": schema, "example": example,
        }));
        self
    }

    /// A header that may be missing.
    pub(crate) fn header(mut self, name: &str, about: &str, schema: Value, example: &str) -> Self {
        self.parameters.push(json!({
            "name": name, "in": "header",
            "description": about, "schema": schema, "example": example,
        }));
        self
    }

    /// A parameter of the path that no other call has.
    pub(crate) fn in_path(mut self, name: &str, about: &str, schema: Value, example: &str) -> Self {
        self.parameters.push(json!({
            "name": name, "in": "path", "required": true,
            "description": about, "schema": schema, "example": example,
        }));
        self
    }

    /// A body that may be missing, with examples: a title and a value each.
    pub(crate) fn takes(self, schema: &str, examples: &[(&str, Value)]) -> Operation {
        self.body(schema, examples, false)
    }

    /// A body that must be there.
    pub(crate) fn needs(self, schema: &str, examples: &[(&str, Value)]) -> Operation {
        self.body(schema, examples, true)
    }

    fn body(mut self, schema: &str, examples: &[(&str, Value)], required: bool) -> Operation {
        let examples: Map<String, Value> = (1..)
            .zip(examples)
            .map(|(n, (title, value))| (n.to_string(), json!({"summary": title, "value": value})))
            .collect();
        self.body = Some(json!({
            "required": required,
            "content": {"application/json": {"schema": named(schema), "examples": examples}},
        }));
        self
    }

    /// What it answers when it is done.
    pub(crate) fn answers(
        self,
        status: u16,
        about: &str,
        schema: &str,
        example: Value,
    ) -> Operation {
        self.answers_in("application/json", status, about, named(schema), example)
    }

    /// The same in another type than JSON.
    pub(crate) fn answers_in(
        mut self,
        kind: &str,
        status: u16,
        about: &str,
        schema: Value,
        example: Value,
    ) -> Operation {
        let content = json!({kind: {"schema": schema, "example": example}});
        let answer = json!({"description": about, "content": content});
        self.answers.insert(status.to_string(), answer);
        self
    }

    /// An answer that is a status and nothing else.
    pub(crate) fn answers_bare(mut self, status: StatusCode, about: &str) -> Operation {
        let status = status.as_str().to_owned();
        self.answers.entry(status).or_insert_with(|| json!({"description": about}));
        self
    }

    /// Looks into the store, which may refuse it in the usual ways, and by these codes.
    pub(crate) fn reads(self, codes: &[Code]) -> Operation {
        self.refuses(BY_THE_STORE).refuses(codes)
    }

    /// Changes the store, which needs room for that.
    pub(crate) fn writes(self, codes: &[Code]) -> Operation {
        self.reads(codes).refuses(&[Code::StorageFull])
    }

    /// May be refused by these codes.
    pub(crate) fn refuses(mut self, codes: &[Code]) -> Operation {
        for code in codes {
            let known = self.answers.entry(status_of(*code).as_str()).or_insert_with(|| json!([]));
            let known = known.as_array_mut().expect("a status is a refusal or is not");
            if !known.contains(&code.as_str().into()) {
                known.push(code.as_str().into());
            }
        }
        self
    }

    /// The whole, for the document.
    pub(crate) fn written(self) -> Value {
        let (needs, dialect) = (self.needs_of_key(), self.about["tags"][0].clone());
        let this = match needs {
            Needs::Nothing => self,
            // Dialects that have their own ways to refuse.
            _ if ["command", "ouqiang"].iter().any(|name| dialect == *name) => self,
            _ if dialect == "tasks" => BY_THE_GUARD
                .iter()
                .fold(self, |call, code| call.answers_bare(status_of(*code), "Refused.")),
            _ => self.refuses(BY_THE_GUARD),
        };
        this.written_with(needs)
    }

    /// What a key must have, by the table.
    fn needs_of_key(&self) -> Needs {
        let method = self.method.to_uppercase().parse().expect("a method");
        let needs = table::of_http(&method, self.path);
        needs.unwrap_or_else(|| panic!("{} {} is not in the table of auth", method, self.path))
    }

    fn written_with(self, needs: Needs) -> Value {
        let mut operation = self.about;
        let security = match needs {
            Needs::Nothing => json!([]),
            Needs::AnyKey => json!([{KEY: []}]),
            // Each by itself does.
            Needs::One(scopes, _) => {
                scopes.iter().map(|scope| json!({KEY: [scope.as_str()]})).collect()
            }
        };
        operation.insert("security".into(), security);
        if !self.parameters.is_empty() {
            operation.insert("parameters".into(), self.parameters.into());
        }
        let mut answers = self.answers;
        if let Some(body) = self.body {
            operation.insert("requestBody".into(), body);
            if answers.contains_key(StatusCode::BAD_REQUEST.as_str()) {
                let too_large = status_of(Code::TooLarge).as_str().to_owned();
                answers.entry(too_large).or_insert_with(|| json!([Code::TooLarge.as_str()]));
                // What the code `invalid` is answered with besides its own status.
                for status in [StatusCode::REQUEST_TIMEOUT, StatusCode::UNSUPPORTED_MEDIA_TYPE] {
                    answers.insert(status.as_str().into(), json!([Code::Invalid.as_str()]));
                }
            }
        }
        let answers = answers.into_iter().map(|(status, answer)| match answer {
            Value::Array(codes) => (status.clone(), refusal(&status, &codes)),
            answer => (status, answer),
        });
        operation.insert("responses".into(), Value::Object(answers.collect()));
        Value::Object(operation)
    }
}

/// A shape by its name.
pub(crate) fn named(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

/// An answer that refuses, by one of these codes.
fn refusal(status: &str, codes: &[Value]) -> Value {
    let names: Vec<String> =
        codes.iter().filter_map(Value::as_str).map(|code| format!("`{code}`")).collect();
    let reason = status.parse().ok().and_then(|status: StatusCode| status.canonical_reason());
    let example = json!({"error": {"code": codes[0], "message": "what is wrong, for people"}});
    let mut answer = json!({
        "description": format!("{}: {}", reason.unwrap_or_default(), names.join(" or ")),
        "content": {"application/json": {
            "schema": {"allOf": [
                named("Error"),
                {"properties": {"error": {"properties": {"code": {"enum": codes}}}}},
            ]},
            "example": example,
        }},
    });
    let waits = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS];
    if waits.iter().any(|wait| status == wait.as_str()) {
        answer["headers"] = json!({"Retry-After": {
            "description": "Seconds after which to try again.",
            "required": true,
            "schema": {"type": "integer", "minimum": 0},
        }});
    }
    answer
}
