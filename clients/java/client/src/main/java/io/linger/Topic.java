package io.linger;

/** A topic: how many jobs it has, and its settings. */
public final class Topic {
    private final Json json;

    Topic(Json json) {
        this.json = json;
    }

    /** Its name. */
    public String name() {
        return json.get("topic").text();
    }

    /** Whether it hands nothing out at present. */
    public boolean paused() {
        Json paused = json.get("paused");
        return paused != null && paused.truth();
    }

    /** How many of its jobs are in this state, such as {@code "ready"}. */
    public long count(String state) {
        Json counts = json.get("counts");
        Json count = counts == null ? null : counts.get(state);
        return count == null ? 0 : count.number().longValue();
    }

    /** All that the server told of it, its {@code settings} among it. */
    public Json json() {
        return json;
    }

    @Override
    public String toString() {
        return json.raw();
    }
}
