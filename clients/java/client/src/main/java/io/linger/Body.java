package io.linger;

import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Locale;

/** What a job carries: JSON as it was given, or bytes. */
public final class Body {
    private final Json json;
    private final byte[] bytes;
    private final Mapper mapper;

    private Body(Json json, byte[] bytes, Mapper mapper) {
        this.json = json;
        this.bytes = bytes;
        this.mapper = mapper;
    }

    /** The body of a job in an answer, or null if the answer is without bodies. */
    static Body ofAnswer(Json json, Json base64, Mapper mapper) {
        if (base64 != null) {
            return new Body(null, Base64.getDecoder().decode(base64.text()), mapper);
        }
        return json == null ? null : new Body(json, null, mapper);
    }

    /** The body of a push, where text is posted without quotes and the content type tells what it is. */
    static Body ofPush(byte[] bytes, String contentType, Mapper mapper) {
        String type = contentType == null ? "" : contentType.split(";")[0].trim().toLowerCase(Locale.ROOT);
        String text = new String(bytes, StandardCharsets.UTF_8);
        if (type.equals("application/json") || type.endsWith("+json")) {
            return new Body(Json.parse(text), null, mapper);
        }
        return type.startsWith("text/") ? new Body(Json.parse(Json.write(text)), null, mapper) : new Body(null, bytes, mapper);
    }

    /** Whether it is bytes and not JSON. */
    public boolean isBytes() {
        return json == null;
    }

    /**
     * The JSON as it was given.
     *
     * @throws IllegalStateException if it is bytes
     */
    public Json json() {
        if (json == null) {
            throw new IllegalStateException("the body is bytes and not JSON");
        }
        return json;
    }

    /** What a push would post: the bytes, the text of a JSON text, the JSON of any other value. */
    public byte[] bytes() {
        return json == null ? bytes.clone() : text().getBytes(StandardCharsets.UTF_8);
    }

    /** The same as {@link #bytes()}, read as UTF-8. */
    public String text() {
        if (json == null) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
        return json.isText() ? json.text() : json.raw();
    }

    /** The body as a String, a byte[], a {@link Json}, or as whatever the client's {@link Mapper} makes of it. */
    public <T> T as(Class<T> type) {
        if (type == String.class) {
            return type.cast(text());
        }
        if (type == byte[].class) {
            return type.cast(bytes());
        }
        if (type == Json.class) {
            return type.cast(json());
        }
        if (mapper == null) {
            throw new IllegalStateException("to read the body as a " + type.getName() + " give the client a Mapper");
        }
        return mapper.read(json().raw(), type);
    }

    @Override
    public String toString() {
        return json == null ? bytes.length + " bytes" : json.raw();
    }
}
