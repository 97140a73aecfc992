use super::*;

#[test]
fn what_users_write_is_read_and_shown_without_passwords() {
    let table = [
        ("redis://localhost", "redis://localhost:6379"),
        ("redis://localhost/", "redis://localhost:6379"),
        ("redis://10.0.0.7:6380/3", "redis://10.0.0.7:6380/3"),
        ("redis://[::1]:7000/1", "redis://[::1]:7000/1"),
        ("redis://[::1]", "redis://[::1]:6379"),
        ("redis://:hush@h", "redis://:***@h:6379"),
        ("redis://app@h", "redis://app:***@h:6379"),
        ("redis://app:hush@h:1/2", "redis://app:***@h:1/2"),
        ("rediss://app:hush@h?ca=/etc/ca.pem", "rediss://app:***@h:6379"),
        ("redis+sentinel://a,b:1,c/m", "redis+sentinel://a:26379,b:1,c:26379/m"),
        ("redis+sentinel://u:hush@a/m/4", "redis+sentinel://u:***@a:26379/m/4"),
        (
            "rediss+sentinel://a/m?sentinel_user=s&sentinel_password=hush",
            "rediss+sentinel://a:26379/m",
        ),
        ("redis+cluster://a:1,b:2,c", "redis+cluster://a:1,b:2,c:6379"),
        ("rediss+cluster://u:hush@a/0", "rediss+cluster://u:***@a:6379"),
    ];
    for (text, shown) in table {
        let address: Address = text.parse().expect(text);
        assert_eq!(address.to_string(), shown);
        assert_eq!(format!("{address:?}"), format!("Address({shown})"));
    }
}

#[test]
fn users_and_passwords_are_percent_decoded() {
    let login = |text: &str| text.parse::<Address>().expect(text).login.expect("a login");
    let read = login("redis://a%40b:p%3A%2F%3F%23%25%c3%a9@h");
    assert_eq!(read.user.as_deref(), Some("a@b"));
    assert_eq!(read.password, "p:/?#%é");
    // What nobody can mistake may stand as it is.
    assert_eq!(login("redis://:p@ss:w/o#rd@h").password, "p@ss:w/o#rd");
}

#[test]
fn parameters_are_kept() {
    let text = "rediss+sentinel://a/m?sentinel_user=s&sentinel_password=x%26y&ca=/a%20b";
    let address: Address = text.parse().expect(text);
    assert_eq!(address.ca, Some("/a b".into()));
    let login = address.sentinel_login.expect("a login");
    assert_eq!((login.user.as_deref(), &*login.password), (Some("s"), "x&y"));
    assert!(address.login.is_none(), "the sentinels' login is theirs alone");
}

#[test]
fn what_is_wrong_is_said_with_the_remedy_and_without_the_password() {
    let table = [
        ("", "no scheme"),
        ("localhost:6379", "no scheme"),
        ("u:hush@localhost:6379", "no scheme"),
        ("http://h", "unknown scheme"),
        ("redis+://h", "unknown scheme"),
        ("redis+unix://h", "unknown scheme"),
        ("REDIS://h", "unknown scheme"),
        ("redis://", "names no host"),
        ("redis://:6379", "names no host"),
        ("redis://u:hush@", "names no host"),
        ("redis://@h", "no user or password"),
        ("redis://h:0", "from 1 to 65535"),
        ("redis://h:65536", "from 1 to 65535"),
        ("redis://h:+1", "from 1 to 65535"),
        ("redis://h:", "from 1 to 65535"),
        ("redis://::1", "`[::1]`"),
        ("redis://[::1", "without its `]`"),
        ("redis://[local]", "no IPv6 address"),
        ("redis://[::1]6379", "after `]`"),
        ("redis://a b", "other characters"),
        ("redis://h/x", "database"),
        ("redis://h/-1", "database"),
        ("redis://h/0/1", "database"),
        ("redis://h/99999999999", "database"),
        ("redis://a,b", "takes one"),
        ("redis://h#0", "`%23`"),
        ("redis://u:hush%@h", "without two hex digits"),
        ("redis://u:hush%4g@h", "without two hex digits"),
        ("redis://u:hush%+1@h", "without two hex digits"),
        ("redis://u:hush%ff@h", "no UTF-8"),
        ("redis://:hu?hush@h", "names no host"),
        ("redis://h?tls=1", "unknown parameter"),
        ("redis://h?ca=/x", "no TLS"),
        ("rediss://h?ca=", "empty `ca`"),
        ("rediss://h?ca=/x&ca=/y", "`ca` twice"),
        ("redis://h?sentinel_password=hush", "no sentinels"),
        ("redis+sentinel://a,b", "which master"),
        ("redis+sentinel://a,b/", "which master"),
        ("redis+sentinel://a,,b/m", "names no host"),
        ("redis+sentinel://a/m%20n", "blanks"),
        ("redis+sentinel://a/m?sentinel_user=u", "without a `sentinel_password`"),
        ("redis+cluster://a,b/1", "only 0"),
    ];
    for (text, says) in table {
        let error = text.parse::<Address>().expect_err(text);
        assert_eq!(error, Error::invalid("store", ""), "{text}");
        assert!(error.message().contains(says), "{text}: {error}");
        assert!(!error.message().contains("hush"), "{text}: {error}");
    }
}

#[test]
fn nothing_that_could_be_of_a_password_is_shown() {
    for text in
        ["redis://:hu?hush@h:x", "redis://h:x?sentinel_password=a@hush", "u:hush@://h", "hush@h"]
    {
        assert!(!masked(text).contains("hush"), "{text}: {}", masked(text));
    }
    assert_eq!(masked("redis://u:hush@h:x/0"), "redis://***@h:x/0");
}
