package io.linger;

import java.util.Optional;
import java.util.OptionalInt;

/** A call that was refused, or that could not be made. */
public class LingerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final Code code;
    private final String field;
    private final int status;

    LingerException(Code code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
        this.field = null;
        this.status = 0;
    }

    LingerException(Code code, String message, String field, int status) {
        super(message);
        this.code = code;
        this.field = field;
        this.status = status;
    }

    /** An `error` as the API has it. */
    static LingerException of(Json error, int status) {
        Json field = error.get("field");
        return new LingerException(Code.of(error.get("code").text()), error.get("message").text(),
                field == null ? null : field.text(), status);
    }

    /** What went wrong, to match on. */
    public Code code() {
        return code;
    }

    /** The field of the request that is at fault, if one is. */
    public Optional<String> field() {
        return Optional.ofNullable(field);
    }

    /** The HTTP status; empty if there was no answer, and for one of several jobs that were added together. */
    public OptionalInt status() {
        return status == 0 ? OptionalInt.empty() : OptionalInt.of(status);
    }
}
