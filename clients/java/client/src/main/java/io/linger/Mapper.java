package io.linger;

/**
 * How objects become JSON and come back, by the library of your choice:
 * {@code Mapper.of(jackson::writeValueAsString, jackson::readValue)} or {@code Mapper.of(gson::toJson, gson::fromJson)}.
 */
public final class Mapper {
    private final Writer writer;
    private final Reader reader;

    private Mapper(Writer writer, Reader reader) {
        this.writer = writer;
        this.reader = reader;
    }

    /** A mapper from a method that writes and one that reads. */
    public static Mapper of(Writer writer, Reader reader) {
        return new Mapper(writer, reader);
    }

    Json write(Object value) {
        try {
            return Json.parse(writer.write(value));
        } catch (Exception cause) {
            throw new IllegalArgumentException("the mapper cannot write a " + value.getClass().getName(), cause);
        }
    }

    <T> T read(String json, Class<T> type) {
        try {
            return reader.read(json, type);
        } catch (Exception cause) {
            throw new IllegalArgumentException("the body is no " + type.getName(), cause);
        }
    }

    /** Writes an object as JSON. */
    @FunctionalInterface
    public interface Writer {
        /** The text of it. */
        String write(Object value) throws Exception;
    }

    /** Reads an object from JSON. */
    @FunctionalInterface
    public interface Reader {
        /** What the text says. */
        <T> T read(String json, Class<T> type) throws Exception;
    }
}
