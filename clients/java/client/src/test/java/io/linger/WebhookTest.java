package io.linger;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.Signature;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;

class WebhookTest {
    private static final String SECRET = secret("one");
    private static final String OTHER = secret("two");
    private static final byte[] BODY = "{\"order\": 1.0}".getBytes(StandardCharsets.UTF_8);

    @Test
    void a_good_signature_gives_the_job() throws Exception {
        Map<String, String> headers = signed(SECRET, Instant.now());
        headers.put("linger-topic", "order%2Fclose%20%C3%BC+");
        Job job = verify(List.of(SECRET), headers, BODY);
        assertEquals("order/close ü+", job.topic());
        assertEquals("1001", job.id());
        assertEquals(2, job.attempt());
        assertEquals(Instant.parse("2026-09-21T14:13:20Z"), job.due());
        assertEquals("8c1f", job.lease().orElseThrow());
        assertEquals("lg_4711_0", job.webhookId().orElseThrow());
        assertEquals("{\"order\": 1.0}", job.body().json().raw());
    }

    @Test
    void the_example_of_standard_webhooks_is_signed_alike() throws Exception {
        String signature = hmac("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
                "{\"test\": 2432232314}".getBytes(StandardCharsets.UTF_8));
        assertEquals("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", signature);
    }

    @Test
    void a_wrong_secret_is_refused() throws Exception {
        refused(List.of(OTHER), signed(SECRET, Instant.now()), BODY);
        refused(List.of(), signed(SECRET, Instant.now()), BODY);
        for (String none : List.of("", "whsec_", "whsec_not base64!", SECRET + "\n")) {
            refused(List.of(none), signed(SECRET, Instant.now()), BODY);
        }
    }

    @Test
    void a_body_that_was_changed_is_refused() throws Exception {
        refused(List.of(SECRET), signed(SECRET, Instant.now()), "{\"order\": 2.0}".getBytes(StandardCharsets.UTF_8));
        refused(List.of(SECRET), signed(SECRET, Instant.now()), new byte[0]);
    }

    @Test
    void what_is_more_than_five_minutes_old_or_ahead_is_refused() throws Exception {
        verify(List.of(SECRET), signed(SECRET, Instant.now().minus(Duration.ofSeconds(280))), BODY);
        verify(List.of(SECRET), signed(SECRET, Instant.now().plus(Duration.ofSeconds(280))), BODY);
        refused(List.of(SECRET), signed(SECRET, Instant.now().minus(Duration.ofSeconds(310))), BODY);
        refused(List.of(SECRET), signed(SECRET, Instant.now().plus(Duration.ofSeconds(310))), BODY);
    }

    @Test
    void a_header_that_is_missing_or_changed_is_refused() throws Exception {
        for (String header : List.of("webhook-id", "webhook-timestamp", "webhook-signature")) {
            Map<String, String> without = signed(SECRET, Instant.now());
            without.remove(header);
            refused(List.of(SECRET), without, BODY);
            Map<String, String> changed = signed(SECRET, Instant.now());
            changed.put(header, changed.get(header) + "0");
            refused(List.of(SECRET), changed, BODY);
        }
        for (String strange : List.of("", "v1", "v1,", "v1,!!", "v2,AAAA", "v1a,AAAA", "AAAA")) {
            Map<String, String> headers = signed(SECRET, Instant.now());
            headers.put("webhook-signature", strange);
            refused(List.of(SECRET), headers, BODY);
        }
    }

    @Test
    void a_delivery_without_its_topic_is_none() throws Exception {
        Map<String, String> headers = signed(SECRET, Instant.now());
        headers.remove("linger-topic");
        LingerException error = assertThrows(LingerException.class, () -> verify(List.of(SECRET), headers, BODY));
        assertEquals(Code.INVALID, error.code());
    }

    @Test
    void while_secrets_are_rotated_either_side_may_be_ahead() throws Exception {
        Map<String, String> both = signed(OTHER, Instant.now());
        both.put("webhook-signature", "v1,AAAA " + both.get("webhook-signature"));
        verify(List.of(OTHER), both, BODY);
        verify(List.of(SECRET, OTHER), both, BODY);
        verify(List.of(SECRET, OTHER), signed(SECRET, Instant.now()), BODY);
    }

    @Test
    void ed25519_is_verified_by_the_public_key() throws Exception {
        KeyPair pair = KeyPairGenerator.getInstance("Ed25519").generateKeyPair();
        byte[] encoded = pair.getPublic().getEncoded();
        String key = "whpk_" + Base64.getEncoder().encodeToString(Arrays.copyOfRange(encoded, encoded.length - 32, encoded.length));
        Map<String, String> headers = signed(SECRET, Instant.now());
        Signature signer = Signature.getInstance("Ed25519");
        signer.initSign(pair.getPrivate());
        signer.update((headers.get("webhook-id") + "." + headers.get("webhook-timestamp") + ".").getBytes(StandardCharsets.UTF_8));
        signer.update(BODY);
        headers.put("webhook-signature", "v1a," + Base64.getEncoder().encodeToString(signer.sign()));
        verify(List.of(SECRET, key), headers, BODY);
        refused(List.of(SECRET), headers, BODY);
        refused(List.of(key), headers, "{}".getBytes(StandardCharsets.UTF_8));
        refused(List.of("whpk_AAAA"), headers, BODY);
        refused(List.of(key), signed(SECRET, Instant.now()), BODY);
    }

    @Test
    void the_content_type_tells_what_a_body_is() throws Exception {
        byte[] text = "héllo".getBytes(StandardCharsets.UTF_8);
        assertEquals("\"héllo\"", body("text/plain; charset=utf-8", text).json().raw());
        assertEquals("héllo", body("text/plain; charset=utf-8", text).text());
        assertEquals("", body("text/plain; charset=utf-8", new byte[0]).text());
        assertEquals("[1]", body("application/vnd.api+json", "[1]".getBytes()).json().raw());
        byte[] bytes = {0, -1};
        assertTrue(body("application/octet-stream", bytes).isBytes());
        assertArrayEquals(bytes, body("application/octet-stream", bytes).bytes());
    }

    private static Body body(String contentType, byte[] body) throws Exception {
        Map<String, String> headers = signed(SECRET, Instant.now(), body);
        headers.put("content-type", contentType);
        return verify(List.of(SECRET), headers, body).body();
    }

    private static Job verify(List<String> secrets, Map<String, String> headers, byte[] body) {
        return Webhook.verify(secrets, headers::get, body);
    }

    private static void refused(List<String> secrets, Map<String, String> headers, byte[] body) {
        LingerException error = assertThrows(LingerException.class, () -> verify(secrets, headers, body));
        assertEquals(Code.UNAUTHORIZED, error.code());
    }

    private static Map<String, String> signed(String secret, Instant at) throws Exception {
        return signed(secret, at, BODY);
    }

    private static Map<String, String> signed(String secret, Instant at, byte[] body) throws Exception {
        String timestamp = Long.toString(at.getEpochSecond());
        Map<String, String> headers = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        headers.putAll(Map.of("content-type", "application/json", "webhook-id", "lg_4711_0", "webhook-timestamp", timestamp,
                "webhook-signature", hmac(secret, "lg_4711_0", timestamp, body), "linger-topic", "order.close",
                "linger-job", "1001", "linger-attempt", "2", "linger-due", "2026-09-21T14:13:20.000Z", "linger-lease", "8c1f"));
        return headers;
    }

    private static String hmac(String secret, String id, String timestamp, byte[] body) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(secret.substring("whsec_".length())), "HmacSHA256"));
        mac.update((id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8));
        return "v1," + Base64.getEncoder().encodeToString(mac.doFinal(body));
    }

    private static String secret(String text) {
        return "whsec_" + Base64.getEncoder().encodeToString(text.repeat(8).getBytes(StandardCharsets.UTF_8));
    }
}
