package io.linger;

import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeParseException;

/** How long a lease has left, whatever this machine's clock says the time is. */
final class Lease {
    /** A `Date` has whole seconds: within two of them this machine's clock is the better one. */
    private static final Duration SAME_TIME = Duration.ofSeconds(2);

    private Lease() {}

    /** The server's time, by the `Date` of its answer if the clocks differ. */
    static Instant serverTime(String date) {
        Instant here = Instant.now();
        try {
            Instant there = ZonedDateTime.parse(date, DateTimeFormatter.RFC_1123_DATE_TIME).toInstant();
            return Duration.between(here, there).abs().compareTo(SAME_TIME) > 0 ? there : here;
        } catch (DateTimeParseException none) {
            return here;
        }
    }

    /** When it ends by {@link System#nanoTime()}; now if there is none. */
    static long ends(Json reservedUntil, Instant serverTime) {
        long now = System.nanoTime();
        return reservedUntil == null ? now : now + Duration.between(serverTime, Instant.parse(reservedUntil.text())).toNanos();
    }
}
