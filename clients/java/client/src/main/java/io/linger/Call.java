package io.linger;

import java.time.Duration;
import java.util.EnumSet;
import java.util.Set;

/** One request, and whether it may be made once more if its answer was lost. */
final class Call {
    final String method;
    final String path;
    final Object body;
    Duration wait = Duration.ZERO;
    String idempotencyKey;
    boolean repeatable;
    private Set<Code> doneWhen = EnumSet.noneOf(Code.class);

    private Call(String method, String path, Object body) {
        this.method = method;
        this.path = path;
        this.body = body;
    }

    /** A request that only looks, which is always harmless. */
    static Call get(String path) {
        return new Call("GET", path, null).repeatable(true);
    }

    static Call of(String method, String path, Object body) {
        return new Call(method, path, body);
    }

    Call repeatable(boolean repeatable) {
        this.repeatable = repeatable;
        return this;
    }

    /** To the second try these say that the first one did it. */
    Call doneWhen(Code first, Code... others) {
        doneWhen = EnumSet.of(first, others);
        return this;
    }

    Call wait(Duration wait) {
        this.wait = wait;
        return this;
    }

    Call idempotencyKey(String key) {
        this.idempotencyKey = key;
        return this;
    }

    boolean isDoneWhen(Code code) {
        return repeatable && doneWhen.contains(code);
    }
}
