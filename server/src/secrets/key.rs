//! Keys that sign what is pushed, as Standard Webhooks 1.0.0 has them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use aws_lc_rs::{hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use linger::error::{Error, Result};

/// How a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// HMAC-SHA256, by a secret that both sides know: `whsec_…`, signatures `v1,…`.
    Hmac,
    /// ed25519, by a key of ours alone: `whsk_…`, signatures `v1a,…`.
    Ed25519,
}

impl Kind {
    /// Its name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Hmac => "hmac",
            Kind::Ed25519 => "ed25519",
        }
    }
}

/// A key that signs. Neither text nor bytes of it can be seen by accident.
#[derive(Clone)]
pub struct SigningKey(Arc<Inside>);

enum Inside {
    Hmac { secret: Vec<u8>, key: Box<hmac::Key> },
    Ed25519 { seed: [u8; SEED_BYTES], pair: Ed25519KeyPair },
}

const HMAC_PREFIX: &str = "whsec_";
const PRIVATE_PREFIX: &str = "whsk_";
const PUBLIC_PREFIX: &str = "whpk_";
/// What the standard asks of a shared secret.
const SECRET_BYTES_MIN: usize = 24;
const SECRET_BYTES_MAX: usize = 64;
const SEED_BYTES: usize = 32;

impl SigningKey {
    /// A key nobody has seen.
    pub(crate) fn generate(kind: Kind) -> SigningKey {
        let mut bytes = [0; SEED_BYTES];
        rand::fill(&mut bytes).expect("the system has randomness");
        match kind {
            Kind::Hmac => SigningKey::hmac(bytes.to_vec()),
            Kind::Ed25519 => SigningKey::ed25519(bytes).expect("any 32 bytes are a seed"),
        }
    }

    /// How it signs.
    pub(crate) fn kind(&self) -> Kind {
        match &*self.0 {
            Inside::Hmac { .. } => Kind::Hmac,
            Inside::Ed25519 { .. } => Kind::Ed25519,
        }
    }

    /// The whole secret, `whsec_…` or `whsk_…`: for the store, and for its owner once.
    pub(crate) fn reveal(&self) -> String {
        match &*self.0 {
            Inside::Hmac { secret, .. } => format!("{HMAC_PREFIX}{}", BASE64.encode(secret)),
            Inside::Ed25519 { seed, pair } => {
                let both = [seed, pair.public_key().as_ref()].concat();
                format!("{PRIVATE_PREFIX}{}", BASE64.encode(both))
            }
        }
    }

    /// What others verify with, `whpk_…`, if that is not the secret itself.
    pub(crate) fn public(&self) -> Option<String> {
        match &*self.0 {
            Inside::Hmac { .. } => None,
            Inside::Ed25519 { pair, .. } => {
                Some(format!("{PUBLIC_PREFIX}{}", BASE64.encode(pair.public_key())))
            }
        }
    }

    fn hmac(secret: Vec<u8>) -> SigningKey {
        let key = Box::new(hmac::Key::new(hmac::HMAC_SHA256, &secret));
        SigningKey(Arc::new(Inside::Hmac { secret, key }))
    }

    fn ed25519(seed: [u8; SEED_BYTES]) -> Result<SigningKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed);
        let pair = pair.map_err(|_| wrong("holds no ed25519 key"))?;
        Ok(SigningKey(Arc::new(Inside::Ed25519 { seed, pair })))
    }

    /// Reads what follows `whsk_`: the seed, or the seed and the public key.
    fn private(bytes: &[u8]) -> Result<SigningKey> {
        let Some((seed, public)) = bytes.split_first_chunk() else {
            return Err(wrong(&format!("holds {} bytes; give 32 or 64", bytes.len())));
        };
        let key = SigningKey::ed25519(*seed)?;
        match &*key.0 {
            Inside::Ed25519 { pair, .. }
                if public.is_empty() || public == pair.public_key().as_ref() =>
            {
                Ok(key)
            }
            _ => Err(wrong("holds a public key that is not its own")),
        }
    }

    /// A signature of `message` as it stands in the header.
    fn sign(&self, message: &[u8]) -> String {
        match &*self.0 {
            Inside::Hmac { key, .. } => format!("v1,{}", BASE64.encode(hmac::sign(key, message))),
            Inside::Ed25519 { pair, .. } => format!("v1a,{}", BASE64.encode(pair.sign(message))),
        }
    }
}

/// The value of `webhook-signature`: by each key one, so that a receiver may know either of two.
/// None without a key.
pub(crate) fn signatures(
    keys: &[SigningKey],
    id: &str,
    timestamp_s: u64,
    body: &[u8],
) -> Option<String> {
    if keys.is_empty() {
        return None;
    }
    let message = [id.as_bytes(), b".", timestamp_s.to_string().as_bytes(), b".", body].concat();
    let signatures: Vec<String> = keys.iter().map(|key| key.sign(&message)).collect();
    Some(signatures.join(" "))
}

/// Takes `whsec_…` and `whsk_…`. What it refuses it does not repeat: most of it may be right.
impl FromStr for SigningKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<SigningKey> {
        let bytes = |base64: &str| BASE64.decode(base64).map_err(|_| wrong("is not base64"));
        if let Some(base64) = text.strip_prefix(HMAC_PREFIX) {
            let secret = bytes(base64)?;
            let range = SECRET_BYTES_MIN..=SECRET_BYTES_MAX;
            if !range.contains(&secret.len()) {
                let why = format!(
                    "holds {} bytes; give {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX}",
                    secret.len()
                );
                return Err(wrong(&why));
            }
            return Ok(SigningKey::hmac(secret));
        }
        match text.strip_prefix(PRIVATE_PREFIX) {
            Some(base64) => SigningKey::private(&bytes(base64)?),
            None => Err(wrong("is no signing key; give whsec_… (HMAC) or whsk_… (ed25519)")),
        }
    }
}

fn wrong(why: &str) -> Error {
    Error::invalid("secret", format!("the secret {why}"))
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a key for {}", self.kind().as_str())
    }
}

impl PartialEq for SigningKey {
    fn eq(&self, other: &SigningKey) -> bool {
        match (&*self.0, &*other.0) {
            (Inside::Hmac { secret, .. }, Inside::Hmac { secret: theirs, .. }) => secret == theirs,
            (Inside::Ed25519 { seed, .. }, Inside::Ed25519 { seed: theirs, .. }) => seed == theirs,
            _ => false,
        }
    }
}

impl Eq for SigningKey {}

#[cfg(test)]
mod tests {
    use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};

    use super::*;

    const SECRET: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    fn key(text: &str) -> SigningKey {
        text.parse().unwrap()
    }

    /// Made with the Python package `standardwebhooks`.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let longest = format!("whsec_{}", BASE64.encode([0xff; 64]));
        for (secret, id, timestamp_s, body, signature) in [
            (
                SECRET,
                "lg_1_0",
                1_796_086_800,
                "{\"order\":1001}",
                "v1,s0Z75o00QBlH+2Ozg50TwZ8YEWDTiAa3eVki94iM/0A=",
            ),
            (
                "whsec_ZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXp7",
                "lg_18446744073709551615_4294967295",
                1,
                "",
                "v1,OlpYDCQIYTJm/RaL4CA0hColSa+x1dVi4gz+oqtYixw=",
            ),
            (
                &longest,
                "lg_4711_2",
                1_796_086_800,
                "grüße\n\0",
                "v1,i3BGZQAxuTD03O9xVY68PcIEXSJlJTL8um2/P/wn/7I=",
            ),
        ] {
            let signed = signatures(&[key(secret)], id, timestamp_s, body.as_bytes());
            assert_eq!(signed.as_deref(), Some(signature), "{id}");
        }
    }

    #[test]
    fn a_private_key_signs_what_its_public_key_verifies() {
        let key = SigningKey::generate(Kind::Ed25519);
        let public = BASE64.decode(&key.public().unwrap()["whpk_".len()..]).unwrap();
        let public = UnparsedPublicKey::new(&ED25519, public);
        let signed = signatures(std::slice::from_ref(&key), "lg_1_0", 5, b"body").unwrap();
        let signature = BASE64.decode(signed.strip_prefix("v1a,").unwrap()).unwrap();
        public.verify(b"lg_1_0.5.body", &signature).unwrap();
        public.verify(b"lg_1_0.5.other", &signature).unwrap_err();
    }

    /// RFC 8032, section 7.1, test 1.
    #[test]
    fn an_ed25519_key_has_the_public_key_of_the_standard() {
        let hex = |text: &str| -> Vec<u8> {
            let digits = (0..text.len()).step_by(2);
            digits.map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let seed = hex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let public = hex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let alone = key(&format!("whsk_{}", BASE64.encode(&seed)));
        assert_eq!(alone.public().unwrap(), format!("whpk_{}", BASE64.encode(&public)));
        let both = [&seed[..], &public[..]].concat();
        assert_eq!(alone.reveal(), format!("whsk_{}", BASE64.encode(&both)));
        assert_eq!(key(&alone.reveal()), alone);
    }

    #[test]
    fn several_keys_sign_side_by_side() {
        let keys = [key(SECRET), SigningKey::generate(Kind::Ed25519)];
        let signed = signatures(&keys, "lg_1_0", 1_796_086_800, b"{\"order\":1001}").unwrap();
        let each: Vec<&str> = signed.split(' ').collect();
        assert_eq!(each[0], "v1,s0Z75o00QBlH+2Ozg50TwZ8YEWDTiAa3eVki94iM/0A=");
        assert!(each[1].starts_with("v1a,") && each.len() == 2, "{signed}");
        assert_eq!(signatures(&[], "lg_1_0", 1, b""), None);
    }

    #[test]
    fn a_key_is_new_each_time_and_reads_back() {
        for kind in [Kind::Hmac, Kind::Ed25519] {
            let (one, other) = (SigningKey::generate(kind), SigningKey::generate(kind));
            assert_ne!(one, other);
            assert_eq!((one.kind(), key(&one.reveal())), (kind, one));
        }
    }

    #[test]
    fn what_is_no_key_is_refused_and_not_repeated() {
        let mismatched = [[7; 32], [8; 32]].concat();
        for (wrong, why) in [
            (String::new(), "no signing key"),
            (SECRET.replace("whsec_", "whpk_"), "no signing key"),
            (SECRET.to_uppercase(), "no signing key"),
            (SECRET.replace('=', "!"), "not base64"),
            (format!("whsec_{}", BASE64.encode([1; 23])), "23 bytes; give 24 to 64"),
            (format!("whsec_{}", BASE64.encode([1; 65])), "65 bytes; give 24 to 64"),
            (format!("whsk_{}", BASE64.encode([1; 31])), "31 bytes; give 32 or 64"),
            (format!("whsk_{}", BASE64.encode(mismatched)), "not its own"),
        ] {
            let refused = wrong.parse::<SigningKey>().unwrap_err();
            assert_eq!(refused.at_field(), Some("secret"));
            assert!(refused.message().contains(why), "{wrong}: {}", refused.message());
            let inside = wrong.split('_').nth(1).filter(|inside| !inside.is_empty());
            assert!(!inside.is_some_and(|inside| refused.message().contains(inside)), "{wrong}");
        }
    }

    #[test]
    fn debug_shows_nothing_of_a_key() {
        assert_eq!(format!("{:?}", key(SECRET)), "a key for hmac");
        assert_eq!(format!("{:?}", SigningKey::generate(Kind::Ed25519)), "a key for ed25519");
    }
}
