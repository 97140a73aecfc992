package io.linger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    @ParameterizedTest
    @ValueSource(strings = {
        "", " ", "{", "[", "}", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{1:1}",
        "{\"a\":1]", "[1}", "01", "-", "+1", "1.", ".5", "1e", "1e+", "0x1", "NaN", "Infinity", "tru", "TRUE", "nul", "'a'",
        "\"", "\"a", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"\\u１２３４\"", "\"a\nb\"", "\"a\tb\"", "1 2", "{}{}", "[] x", "\u00a01",
        "\"\\\"", "//1", "[1,/**/2]"
    })
    void what_is_not_json_is_refused(String text) {
        assertThrows(IllegalArgumentException.class, () -> Json.parse(text));
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "null", "true", "false", "0", "-0", "-1.5e+10", "1E9", "123456789012345678901234567890", "\"\"", "\"\\u00e9\\/\\n\"",
        "[]", "{}", "[[],{},[{}]]", "{\"a\":{\"b\":[1,2,{\"c\":null}]}}", "[ 1 , 2 ]", "{ \"a\" : 1 , \"b\" : [ ] }"
    })
    void what_is_json_comes_back_as_it_was(String text) {
        assertEquals(text, Json.parse(" \t\r\n" + text + "\n ").raw());
    }

    @Test
    void values_are_read() {
        Json json = Json.parse("{\"t\":\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00é\", \"n\": -1.50, \"l\": [1, \"x\"], \"b\":true, \"z\":null}");
        assertEquals("a\"\\/\b\f\n\r\té😀é", json.get("t").text());
        assertEquals(new BigDecimal("-1.50"), json.get("n").number());
        assertEquals(List.of("1", "\"x\""), List.of(json.get("l").items().get(0).raw(), json.get("l").items().get(1).raw()));
        assertTrue(json.get("b").truth());
        assertTrue(json.get("z").isNull());
        assertNull(json.get("none"));
        assertEquals("[1, \"x\"]", json.get("l").raw());
        assertThrows(IllegalStateException.class, () -> json.get("n").text());
        assertThrows(IllegalStateException.class, () -> json.get("t").fields());
    }

    @Test
    void of_a_name_given_twice_the_last_counts() {
        assertEquals("2", Json.parse("{\"a\":1,\"a\":2}").get("a").raw());
    }

    @Test
    void a_name_may_have_escapes() {
        assertEquals("1", Json.parse("{\"\\u0061\\n\":1}").get("a\n").raw());
    }

    @Test
    void depth_is_no_limit() {
        String deep = "[".repeat(100_000) + "]".repeat(100_000);
        assertEquals(deep, Json.parse("{\"body\":" + deep + "}").get("body").raw());
    }

    @Test
    void values_are_written() {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("null", null);
        map.put("list", Arrays.asList(1, 2.5, 10L, true, null, new BigDecimal("1.10")));
        map.put("raw", Json.parse("{ \"a\" : 1.0 }"));
        map.put("length", Duration.ofMillis(1500));
        map.put("moment", Instant.parse("2026-12-01T09:00:00Z"));
        map.put("empty", Map.of());
        assertEquals("{\"null\":null,\"list\":[1,2.5,10,true,null,1.10],\"raw\":{ \"a\" : 1.0 },\"length\":\"1500ms\","
                + "\"moment\":\"2026-12-01T09:00:00Z\",\"empty\":{}}", Json.write(map));
    }

    @Test
    void text_comes_back_through_writing_and_reading() {
        String text = "\"quoted\" \\ / \b\f\n\r\t\u0000\u001f\u007f é 世界 😀 \ud83d alone \ude00";
        assertEquals(text, Json.parse(Json.write(text)).text());
        assertTrue(Json.write("a\ud83db").contains("\\ud83d"), "half a pair has no bytes in UTF-8");
        assertFalse(Json.write("😀").contains("\\u"));
    }

    @Test
    void what_json_cannot_hold_is_refused() {
        assertThrows(IllegalArgumentException.class, () -> Json.write(Double.NaN));
        assertThrows(IllegalArgumentException.class, () -> Json.write(new Object()));
    }

    @Test
    void lengths_of_time_are_read_as_the_server_writes_them() {
        assertEquals(Duration.ofMillis(500), Durations.parse("500ms"));
        assertEquals(Duration.ofMinutes(150), Durations.parse("2h30m"));
        assertEquals(Duration.ofMillis(4998), Durations.parse("4s998ms"));
        assertEquals(Duration.ofDays(7), Durations.parse("7d"));
        assertEquals(Duration.ofMillis(1500), Durations.parse("1.5"));
        for (String wrong : List.of("", "soon", "5x", "s", "-1s", "1s ")) {
            assertThrows(IllegalArgumentException.class, () -> Durations.parse(wrong), wrong);
        }
    }
}
