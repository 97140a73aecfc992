//! What a request brings: checked before any route looks at it.

use std::sync::Arc;

use axum::body::{Bytes, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, Uri};
use http_body_util::BodyExt;
use linger::error::{Code, Error};
use linger::job::Id;
use linger::queue::Key;
use linger::topic::Topic;

use super::App;
use super::error::{Refused, Result};
use super::read;
use crate::front::limit::{Rest, Weight};

/// The bytes of a request, all of them, within the limits of size and time.
pub(crate) struct Payload(pub(crate) Bytes);

impl FromRequest<Arc<App>> for Payload {
    type Rejection = Refused;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Payload> {
        let (parts, body) = request.into_parts();
        payload(app, &parts, body).await.map(Payload)
    }
}

/// The bytes of a request that is JSON, all of them, within the limits of size and time.
pub(crate) async fn payload<B>(app: &Arc<App>, parts: &Parts, body: B) -> Result<Bytes>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    check_type(&parts.headers)?;
    check_encoding(&parts.headers)?;
    if parts.uri.query().is_some() {
        // What a call takes is in its body: a parameter would be passed over in silence.
        Asked::of(&parts.uri)?.end()?;
    }
    let (bytes_max, time) = {
        let limits = &app.config().limits;
        (limits.batch_bytes, limits.body_time)
    };
    match tokio::time::timeout(time, read_all(app, body, bytes_max)).await {
        Ok(read) => read,
        Err(_) => {
            let time = linger::time::format_duration(time);
            let message = format!("the request did not arrive within {time}");
            Err(Refused::new(Code::Invalid, message).status(StatusCode::REQUEST_TIMEOUT).close())
        }
    }
}

async fn read_all<B>(app: &Arc<App>, mut body: B, bytes_max: usize) -> Result<Bytes>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    let too_large = || {
        let message = format!("the request is over the limit of {bytes_max} bytes");
        Refused::new(Code::TooLarge, message).close()
    };
    let overloaded = |why: Error| Refused::from(why).close();
    let announced = body.size_hint().lower();
    if announced > bytes_max as u64 {
        return Err(too_large());
    }
    let mut weight = Weight::none(app);
    weight.grow_to(announced as usize, Rest::None).map_err(overloaded)?;
    let (mut first, mut all) = (Bytes::new(), Vec::new());
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|cause| {
            let message = format!("the request broke off: {}", cause.into());
            Refused::new(Code::Invalid, message).close()
        })?;
        let Ok(data) = frame.into_data() else { continue };
        let len = first.len() + all.len() + data.len();
        if len > bytes_max {
            return Err(too_large());
        }
        let rest = if body.is_end_stream() { Rest::None } else { Rest::ToCome };
        weight.grow_to(len, rest).map_err(overloaded)?;
        if first.is_empty() && all.is_empty() {
            // Mostly there is one piece, and it can be taken as it is.
            first = data;
        } else {
            all.extend_from_slice(&std::mem::take(&mut first));
            all.extend_from_slice(&data);
        }
    }
    Ok(weight.of(if all.is_empty() { first } else { all.into() }))
}

/// JSON, or no word of what it is: browsers send forms across sites without asking, and JSON not.
fn check_type(headers: &HeaderMap) -> Result<()> {
    let Some(given) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let text = given.to_str().unwrap_or_default();
    let kind = text.split(';').next().unwrap_or_default().trim();
    // What curl -d says if nobody tells it otherwise.
    let known = ["application/json", "application/x-www-form-urlencoded", "text/json"];
    let end = kind.len().saturating_sub("+json".len());
    if known.iter().any(|known| kind.eq_ignore_ascii_case(known))
        || kind.get(end..).is_some_and(|end| end.eq_ignore_ascii_case("+json"))
    {
        return Ok(());
    }
    let message = format!("content type is `{}`; send application/json", read::short(text));
    Err(Refused::new(Code::Invalid, message).status(StatusCode::UNSUPPORTED_MEDIA_TYPE))
}

/// As it is: what is packed may be a thousand times as large.
fn check_encoding(headers: &HeaderMap) -> Result<()> {
    let Some(given) = headers.get(CONTENT_ENCODING) else { return Ok(()) };
    if given.as_bytes().eq_ignore_ascii_case(b"identity") {
        return Ok(());
    }
    let text = read::short(given.to_str().unwrap_or_default());
    let message = format!("content encoding is `{text}`; send the request as it is, without one");
    Err(Refused::new(Code::Invalid, message).status(StatusCode::UNSUPPORTED_MEDIA_TYPE).close())
}

/// The parts of the path that are names, decoded.
async fn names<T: serde::de::DeserializeOwned + Send>(
    parts: &mut Parts,
    app: &Arc<App>,
) -> Result<T> {
    let Path(names) = Path::from_request_parts(parts, app).await.map_err(|cause| {
        Refused::new(Code::Invalid, format!("the path cannot be read: {}", cause.body_text()))
    })?;
    Ok(names)
}

/// The topic in the path.
pub(crate) struct InTopic(pub(crate) Topic);

impl FromRequestParts<Arc<App>> for InTopic {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<InTopic> {
        let topic: String = names(parts, app).await?;
        Ok(InTopic(topic.parse()?))
    }
}

/// The topic in the path, and the word after it.
pub(crate) struct InTopicDo(pub(crate) Topic, pub(crate) String);

impl FromRequestParts<Arc<App>> for InTopicDo {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<InTopicDo> {
        let (topic, word): (String, String) = names(parts, app).await?;
        Ok(InTopicDo(topic.parse()?, word))
    }
}

/// The job in the path.
pub(crate) struct OneJob(pub(crate) Topic, pub(crate) Id);

impl OneJob {
    /// How the store knows it.
    pub(crate) fn key(self) -> Key {
        Key::Named(self.0, self.1)
    }
}

impl FromRequestParts<Arc<App>> for OneJob {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<OneJob> {
        let (topic, id): (String, String) = names(parts, app).await?;
        Ok(OneJob(topic.parse()?, id.parse()?))
    }
}

/// The job in the path, and what is to be done to it.
pub(crate) struct OneJobDo(pub(crate) OneJob, pub(crate) String);

impl FromRequestParts<Arc<App>> for OneJobDo {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<OneJobDo> {
        let (topic, id, word): (String, String, String) = names(parts, app).await?;
        Ok(OneJobDo(OneJob(topic.parse()?, id.parse()?), word))
    }
}

/// The secret in the path.
pub(crate) struct OneSecret(pub(crate) Id);

impl FromRequestParts<Arc<App>> for OneSecret {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<OneSecret> {
        let id: String = names(parts, app).await?;
        Ok(OneSecret(id.parse()?))
    }
}

/// The worker in the path.
pub(crate) struct OneWorker(pub(crate) Id);

impl FromRequestParts<Arc<App>> for OneWorker {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<OneWorker> {
        let id: String = names(parts, app).await?;
        Ok(OneWorker(id.parse()?))
    }
}

/// What stands behind the question mark: each name once, and nothing unknown.
pub(crate) struct Asked {
    pairs: Vec<(String, String)>,
    known: Vec<&'static str>,
}

impl FromRequestParts<Arc<App>> for Asked {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Asked> {
        Asked::of(&parts.uri)
    }
}

impl Asked {
    fn of(uri: &Uri) -> Result<Asked> {
        let query = uri.query().unwrap_or_default();
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if pairs.iter().any(|(earlier, _)| *earlier == name) {
                let message = format!("`{}` is given twice", read::short(&name));
                return Err(Refused::invalid(name, message));
            }
            pairs.push((name, value));
        }
        Ok(Asked { pairs, known: Vec::new() })
    }
}

fn decoded(text: &str) -> Result<String> {
    let wrong = || Refused::new(Code::Invalid, "the query is not percent-encoded UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.bytes();
    while let Some(byte) = left.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || left.next().and_then(|byte| char::from(byte).to_digit(16));
                let (high, low) = digit().zip(digit()).ok_or_else(wrong)?;
                (high * 16 + low) as u8
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

impl Asked {
    /// The value of a name; none if it is missing or empty.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<String> {
        self.known.push(name);
        let at = self.pairs.iter().position(|(given, _)| given == name)?;
        Some(self.pairs.swap_remove(at).1).filter(|value| !value.is_empty())
    }

    /// A whole number.
    pub(crate) fn number<T: std::str::FromStr>(&mut self, name: &'static str) -> Result<Option<T>> {
        let Some(text) = self.take(name) else { return Ok(None) };
        let wrong = |_| {
            let text = read::short(&text);
            Refused::invalid(name, format!("{name} is `{text}`; give a whole number"))
        };
        text.parse().map(Some).map_err(wrong)
    }

    /// True or false.
    pub(crate) fn flag(&mut self, name: &'static str) -> Result<bool> {
        match self.take(name).as_deref() {
            None | Some("false" | "0") => Ok(false),
            Some("true" | "1") => Ok(true),
            Some(text) => {
                let text = read::short(text);
                Err(Refused::invalid(name, format!("{name} is `{text}`; give true or false")))
            }
        }
    }

    /// A moment.
    pub(crate) fn time(&mut self, name: &'static str) -> Result<Option<linger::time::Time>> {
        self.take(name).map(|text| read::time_of(name, &text)).transpose()
    }

    /// Refuses what nobody asked for.
    pub(crate) fn end(self) -> Result<()> {
        let Some((name, _)) = self.pairs.first() else { return Ok(()) };
        let hint = match read::nearest(name, &self.known) {
            Some(known) => format!("did you mean `{known}`?"),
            None if self.known.is_empty() => "this path takes none".to_owned(),
            None => format!("known here: {}", self.known.join(", ")),
        };
        let message = format!("unknown parameter `{}`; {hint}", read::short(name));
        Err(Refused::invalid(read::short(name), message))
    }
}
