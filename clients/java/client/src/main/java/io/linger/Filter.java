package io.linger;

import java.time.Instant;

/** Which jobs of a topic are listed. All that is given must fit. */
public final class Filter extends Fields<Filter> {
    private Filter() {}

    /** All jobs, without their bodies. */
    public static Filter all() {
        return new Filter();
    }

    /** In this state, such as {@code "dead"}. */
    public Filter state(String state) {
        return set("state", state);
    }

    /** Due before this. */
    public Filter dueBefore(Instant moment) {
        return set("due_before", moment);
    }

    /** Due at this moment or after it. */
    public Filter dueAfter(Instant moment) {
        return set("due_after", moment);
    }

    /** With an id that begins like this. */
    public Filter idPrefix(String prefix) {
        return set("id_prefix", prefix);
    }

    /** With exactly this last error. */
    public Filter error(String error) {
        return set("error", error);
    }

    /** With their bodies. */
    public Filter withBodies() {
        return set("body", true);
    }

    /** At most so many a page. */
    public Filter limit(int limit) {
        return set("limit", limit);
    }

    /** From where an earlier page left off. */
    public Filter cursor(String cursor) {
        return set("cursor", cursor);
    }
}
