package io.linger;

import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.Map;

/** When a job runs again. */
public final class Repeat extends Fields<Repeat> {
    private Repeat() {}

    /** Again and again, so far apart. */
    public static Repeat every(Duration interval) {
        return new Repeat().set("every", interval);
    }

    /** By five fields of cron, or six with seconds in front, in a time zone. */
    public static Repeat cron(String cron, ZoneId zone) {
        return new Repeat().set("cron", cron).set("tz", zone.getId());
    }

    /** The last moment at which it may be due. */
    public Repeat until(Instant until) {
        return set("until", until);
    }

    /** After so many it is over. */
    public Repeat count(long count) {
        return set("count", count);
    }

    /** Times that were missed are made up for by one run, as they are unless set. */
    public Repeat misfireOnce() {
        return set("misfire", "once");
    }

    /** Times that were missed are left out. */
    public Repeat misfireSkip() {
        return set("misfire", "skip");
    }

    /** Of the times that were missed so many are made up for. */
    public Repeat misfireAll(int most) {
        return set("misfire", Map.of("all", most));
    }

    /** When one of them dies there are no more; unless set it goes on. */
    public Repeat stopWhenDead() {
        return set("on_dead", "stop");
    }
}
