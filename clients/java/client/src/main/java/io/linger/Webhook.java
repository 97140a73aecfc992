package io.linger;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.X509EncodedKeySpec;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Checks that a delivery is Linger's, by its signature as Standard Webhooks has it, and reads its job. */
public final class Webhook {
    private static final Duration TOLERANCE = Duration.ofMinutes(5);
    /** What stands before the 32 bytes of an ed25519 key in its usual encoding (RFC 8410). */
    private static final byte[] ED25519_HEAD = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};

    private static final int ED25519_BYTES = 32;

    private Webhook() {}

    /**
     * The job of a delivery, if one of the secrets has signed it within the last five minutes.
     *
     * @param secrets {@code whsec_…}, or for {@code v1a} public keys {@code whpk_…} (Java 15 or later); several while
     *     they are rotated
     * @param headers a header by its name, null if there is none: {@code request::getHeader}, say
     * @param body the body as it came, byte for byte
     * @throws LingerException {@link Code#UNAUTHORIZED} if the signature is missing, wrong or too old
     */
    public static Job verify(Collection<String> secrets, Function<String, String> headers, byte[] body) {
        return verify(secrets, headers, body, null);
    }

    /** The same, with a {@link Mapper} by which {@link Body#as} reads objects. */
    public static Job verify(Collection<String> secrets, Function<String, String> headers, byte[] body, Mapper mapper) {
        check(secrets, headers, body);
        return read(headers, body, mapper);
    }

    /** The job of a delivery that nobody has signed. */
    static Job read(Function<String, String> headers, byte[] body, Mapper mapper) {
        try {
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put("topic", decoded(headers.apply("linger-topic")));
            fields.put("id", decoded(headers.apply("linger-job")));
            fields.put("attempt", Integer.valueOf(headers.apply("linger-attempt")));
            fields.put("due", Instant.parse(headers.apply("linger-due")));
            put(fields, "lease", headers.apply("linger-lease"));
            put(fields, "webhook_id", headers.apply("webhook-id"));
            put(fields, "traceparent", headers.apply("traceparent"));
            return Job.pushed(fields, Body.ofPush(body, headers.apply("content-type"), mapper));
        } catch (RuntimeException cause) {
            throw new LingerException(Code.INVALID, "this is no delivery of Linger: a header or the body is missing or wrong", cause);
        }
    }

    private static void check(Collection<String> secrets, Function<String, String> headers, byte[] body) {
        String id = headers.apply("webhook-id");
        String timestamp = headers.apply("webhook-timestamp");
        String signatures = headers.apply("webhook-signature");
        if (id == null || timestamp == null || signatures == null) {
            throw refused("a header of the signature is missing");
        }
        checkTime(timestamp);
        byte[] signed = joined((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8), body);
        for (String signature : signatures.split(" ")) {
            for (String secret : secrets) {
                if (isBy(secret, signature, signed)) {
                    return;
                }
            }
        }
        throw refused("no signature is by a secret that is known here");
    }

    private static void checkTime(String timestamp) {
        long seconds;
        try {
            seconds = Long.parseLong(timestamp);
        } catch (NumberFormatException wrong) {
            throw refused("the timestamp `" + timestamp + "` is no number");
        }
        long off = Instant.now().getEpochSecond() - seconds;
        if (off > TOLERANCE.toSeconds() || off < -TOLERANCE.toSeconds()) {
            throw refused("the timestamp is " + off + " s off, over the limit of " + TOLERANCE.toSeconds());
        }
    }

    private static boolean isBy(String secret, String signature, byte[] signed) {
        try {
            if (signature.startsWith("v1,") && !secret.startsWith("whpk_")) {
                return MessageDigest.isEqual(hmac(key(secret, "whsec_"), signed), key(signature, "v1,"));
            }
            return signature.startsWith("v1a,") && secret.startsWith("whpk_")
                    && isSigned(key(secret, "whpk_"), signed, key(signature, "v1a,"));
        } catch (NoSuchAlgorithmException old) {
            throw new IllegalStateException("ed25519 needs Java 15 or later; use a secret of the kind hmac", old);
        } catch (GeneralSecurityException wrong) {
            return false;
        }
    }

    /** Throws if this can sign nothing, so that whoever has set it hears of it before the first delivery. */
    static void checkSecret(String secret) {
        boolean isPublic = secret.startsWith("whpk_");
        try {
            if (isPublic && key(secret, "whpk_").length != ED25519_BYTES) {
                throw new IllegalArgumentException("a public key has " + ED25519_BYTES + " bytes");
            }
            key(secret, isPublic ? "whpk_" : "whsec_");
        } catch (GeneralSecurityException wrong) {
            throw new IllegalArgumentException("a secret is `whsec_` or `whpk_` and base64", wrong);
        }
    }

    /** The bytes behind a prefix; what is empty or not strictly base64 signs nothing. */
    private static byte[] key(String text, String prefix) throws GeneralSecurityException {
        String base64 = text.startsWith(prefix) ? text.substring(prefix.length()) : text;
        try {
            byte[] bytes = Base64.getDecoder().decode(base64);
            // The decoder takes what lacks its padding, and more than one text for the same bytes.
            if (bytes.length > 0 && Base64.getEncoder().encodeToString(bytes).equals(base64)) {
                return bytes;
            }
        } catch (IllegalArgumentException wrong) {
            throw new GeneralSecurityException(wrong);
        }
        throw new GeneralSecurityException("empty, or not strictly base64");
    }

    private static byte[] hmac(byte[] secret, byte[] signed) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret, "HmacSHA256"));
        return mac.doFinal(signed);
    }

    private static boolean isSigned(byte[] key, byte[] signed, byte[] signature) throws GeneralSecurityException {
        PublicKey publicKey = KeyFactory.getInstance("Ed25519").generatePublic(new X509EncodedKeySpec(joined(ED25519_HEAD, key)));
        Signature verifier = Signature.getInstance("Ed25519");
        verifier.initVerify(publicKey);
        verifier.update(signed);
        return verifier.verify(signature);
    }

    private static byte[] joined(byte[] head, byte[] tail) {
        byte[] all = Arrays.copyOf(head, head.length + tail.length);
        System.arraycopy(tail, 0, all, head.length, tail.length);
        return all;
    }

    private static String decoded(String text) {
        // The decoder is that of forms, where a plus is a blank; here it is a plus.
        return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
    }

    private static void put(Map<String, Object> fields, String name, String value) {
        if (value != null) {
            fields.put(name, value);
        }
    }

    private static LingerException refused(String why) {
        return new LingerException(Code.UNAUTHORIZED, why, null);
    }
}
