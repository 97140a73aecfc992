package io.linger;

import java.math.BigDecimal;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A JSON value that keeps the text it was read from, and how values become text.
 *
 * <p>Reading is strict, as RFC 8259 has it. What is inside is taken apart only when it is asked for, so a body
 * passes through byte for byte, however large or deep it is.
 */
public final class Json {
    private final String source;
    private final int start;
    private final int end;

    private Json(String source, int start, int end) {
        this.source = source;
        this.start = start;
        this.end = end;
    }

    /**
     * Reads one value, with nothing but blanks around it.
     *
     * @throws IllegalArgumentException if it is not JSON; the message says where
     */
    public static Json parse(String text) {
        int start = blanks(text, 0);
        int end = skip(text, start);
        int rest = blanks(text, end);
        if (rest != text.length()) {
            throw wrong(text, rest);
        }
        return new Json(text, start, end);
    }

    /**
     * The text of a value: null, Boolean, Number, text, Duration, Instant, Map, Iterable, or Json as it is.
     *
     * @throws IllegalArgumentException for anything else
     */
    public static String write(Object value) {
        StringBuilder out = new StringBuilder();
        write(out, value);
        return out.toString();
    }

    /** The text it was read from, without blanks around it. */
    public String raw() {
        return source.substring(start, end);
    }

    /** The same as {@link #raw()}. */
    @Override
    public String toString() {
        return raw();
    }

    /** Whether it is {@code null}. */
    public boolean isNull() {
        return first() == 'n';
    }

    /** Whether it is text in quotes. */
    public boolean isText() {
        return first() == '"';
    }

    /** Whether it is an object. */
    public boolean isObject() {
        return first() == '{';
    }

    /** Whether it is a list. */
    public boolean isList() {
        return first() == '[';
    }

    /** Whether it is a number. */
    public boolean isNumber() {
        return first() == '-' || first() >= '0' && first() <= '9';
    }

    /** Its text, without quotes and escapes. */
    public String text() {
        require(isText(), "text");
        return unescaped(source, start + 1, end - 1);
    }

    /** The number. */
    public BigDecimal number() {
        require(isNumber(), "a number");
        return new BigDecimal(raw());
    }

    /** The truth value. */
    public boolean truth() {
        require(first() == 't' || first() == 'f', "true or false");
        return first() == 't';
    }

    /** What is in the list. */
    public List<Json> items() {
        require(isList(), "a list");
        List<Json> items = new ArrayList<>();
        int at = blanks(source, start + 1);
        while (source.charAt(at) != ']') {
            int after = skip(source, at);
            items.add(new Json(source, at, after));
            at = nextEntry(after);
        }
        return Collections.unmodifiableList(items);
    }

    /** The fields of the object, in their order; of those given twice the last. */
    public Map<String, Json> fields() {
        require(isObject(), "an object");
        Map<String, Json> fields = new LinkedHashMap<>();
        int at = blanks(source, start + 1);
        while (source.charAt(at) != '}') {
            int colon = skipText(source, at);
            int value = blanks(source, blanks(source, colon) + 1);
            int after = skip(source, value);
            fields.put(unescaped(source, at + 1, colon - 1), new Json(source, value, after));
            at = nextEntry(after);
        }
        return Collections.unmodifiableMap(fields);
    }

    /** One field of the object, or null if it has none of this name. */
    public Json get(String name) {
        return fields().get(name);
    }

    private char first() {
        return source.charAt(start);
    }

    private int nextEntry(int at) {
        int next = blanks(source, at);
        return source.charAt(next) == ',' ? blanks(source, next + 1) : next;
    }

    private void require(boolean holds, String what) {
        if (!holds) {
            throw new IllegalStateException("the JSON value `" + clipped() + "` is not " + what);
        }
    }

    private String clipped() {
        return end - start <= 40 ? raw() : source.substring(start, start + 40) + "…";
    }

    // Reading. A loop with a stack of its own, since the depth of a body is whatever its author gave it.

    private static int skip(String text, int at) {
        StringBuilder open = new StringBuilder();
        while (true) {
            char c = charAt(text, at);
            if (c == '{' || c == '[') {
                char close = c == '{' ? '}' : ']';
                at = blanks(text, at + 1);
                if (charAt(text, at) != close) {
                    open.append(close);
                    at = close == '}' ? skipName(text, at) : at;
                    continue;
                }
                at++;
            } else {
                at = skipScalar(text, at, c);
            }
            at = skipClosed(text, at, open);
            if (open.length() == 0) {
                return at;
            }
        }
    }

    /** From behind a value to the next one of what is open, or to the end if nothing is open any more. */
    private static int skipClosed(String text, int at, StringBuilder open) {
        while (open.length() > 0) {
            at = blanks(text, at);
            char c = charAt(text, at);
            char close = open.charAt(open.length() - 1);
            if (c == ',') {
                at = blanks(text, at + 1);
                return close == '}' ? skipName(text, at) : at;
            }
            if (c != close) {
                throw wrong(text, at);
            }
            open.setLength(open.length() - 1);
            at++;
        }
        return at;
    }

    private static int skipName(String text, int at) {
        if (charAt(text, at) != '"') {
            throw wrong(text, at);
        }
        int colon = blanks(text, skipText(text, at));
        if (charAt(text, colon) != ':') {
            throw wrong(text, colon);
        }
        return blanks(text, colon + 1);
    }

    private static int skipScalar(String text, int at, char c) {
        switch (c) {
            case '"':
                return skipText(text, at);
            case 't':
                return skipWord(text, at, "true");
            case 'f':
                return skipWord(text, at, "false");
            case 'n':
                return skipWord(text, at, "null");
            default:
                return skipNumber(text, at);
        }
    }

    private static int skipWord(String text, int at, String word) {
        if (!text.startsWith(word, at)) {
            throw wrong(text, at);
        }
        return at + word.length();
    }

    private static int skipNumber(String text, int at) {
        if (charAt(text, at) == '-') {
            at++;
        }
        at = charAt(text, at) == '0' ? at + 1 : skipDigits(text, at);
        if (at < text.length() && text.charAt(at) == '.') {
            at = skipDigits(text, at + 1);
        }
        if (at < text.length() && (text.charAt(at) | 0x20) == 'e') {
            at++;
            char sign = charAt(text, at);
            at = skipDigits(text, sign == '+' || sign == '-' ? at + 1 : at);
        }
        return at;
    }

    private static int skipDigits(String text, int at) {
        int from = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        if (at == from) {
            throw wrong(text, at);
        }
        return at;
    }

    private static int skipText(String text, int at) {
        for (at++; charAt(text, at) != '"'; at++) {
            char c = text.charAt(at);
            if (c < 0x20) {
                throw wrong(text, at);
            }
            if (c == '\\') {
                at++;
                if (charAt(text, at) == 'u') {
                    for (int digit = 0; digit < 4; digit++) {
                        at++;
                        if (charAt(text, at) >= 0x80 || Character.digit(text.charAt(at), 16) < 0) {
                            throw wrong(text, at);
                        }
                    }
                } else if ("\"\\/bfnrt".indexOf(text.charAt(at)) < 0) {
                    throw wrong(text, at);
                }
            }
        }
        return at + 1;
    }

    private static int blanks(String text, int at) {
        while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        return at;
    }

    private static char charAt(String text, int at) {
        if (at >= text.length()) {
            throw wrong(text, at);
        }
        return text.charAt(at);
    }

    private static IllegalArgumentException wrong(String text, int at) {
        String what = at >= text.length() ? "it ends too early" : "`" + text.charAt(at) + "` cannot stand there";
        return new IllegalArgumentException("not JSON at character " + at + ": " + what);
    }

    private static String unescaped(String text, int from, int to) {
        StringBuilder out = new StringBuilder(to - from);
        for (int at = from; at < to; at++) {
            char c = text.charAt(at);
            if (c != '\\') {
                out.append(c);
                continue;
            }
            at++;
            int plain = "bfnrt".indexOf(text.charAt(at));
            if (plain >= 0) {
                out.append("\b\f\n\r\t".charAt(plain));
            } else if (text.charAt(at) == 'u') {
                out.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                at += 4;
            } else {
                out.append(text.charAt(at));
            }
        }
        return out.toString();
    }

    // Writing.

    private static void write(StringBuilder out, Object value) {
        if (value == null || value instanceof Boolean || value instanceof Json) {
            out.append(value);
        } else if (value instanceof Number) {
            writeNumber(out, (Number) value);
        } else if (value instanceof CharSequence || value instanceof Instant) {
            writeText(out, value.toString());
        } else if (value instanceof Duration) {
            writeText(out, Durations.text((Duration) value));
        } else if (value instanceof Fields) {
            write(out, ((Fields<?>) value).fields());
        } else if (value instanceof Map) {
            writeObject(out, (Map<?, ?>) value);
        } else if (value instanceof Iterable) {
            writeList(out, (Iterable<?>) value);
        } else {
            throw new IllegalArgumentException("a " + value.getClass().getName()
                    + " is nothing that this client can write as JSON; give the client a Mapper");
        }
    }

    private static void writeNumber(StringBuilder out, Number value) {
        if (value instanceof Double || value instanceof Float) {
            double number = value.doubleValue();
            if (Double.isNaN(number) || Double.isInfinite(number)) {
                throw new IllegalArgumentException("JSON has no number " + number);
            }
        }
        out.append(value);
    }

    private static void writeObject(StringBuilder out, Map<?, ?> map) {
        char before = '{';
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            out.append(before);
            writeText(out, String.valueOf(entry.getKey()));
            out.append(':');
            write(out, entry.getValue());
            before = ',';
        }
        out.append(map.isEmpty() ? "{}" : "}");
    }

    private static void writeList(StringBuilder out, Iterable<?> list) {
        out.append('[');
        String before = "";
        for (Object item : list) {
            out.append(before);
            write(out, item);
            before = ",";
        }
        out.append(']');
    }

    private static void writeText(StringBuilder out, String text) {
        out.append('"');
        for (int at = 0; at < text.length(); at++) {
            char c = text.charAt(at);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < 0x20 || isAlone(text, at)) {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    /** Half of a surrogate pair: UTF-8 has no bytes for it, and `?` in its place would be another text. */
    private static boolean isAlone(String text, int at) {
        char c = text.charAt(at);
        if (Character.isHighSurrogate(c)) {
            return at + 1 == text.length() || !Character.isLowSurrogate(text.charAt(at + 1));
        }
        return Character.isLowSurrogate(c) && (at == 0 || !Character.isHighSurrogate(text.charAt(at - 1)));
    }
}
