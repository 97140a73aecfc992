package io.linger;

import java.util.Locale;

/** What becomes of a job that is added while its topic has one of the same id. */
public enum OnConflict {
    /** It is refused: {@link Code#ALREADY_EXISTS}. */
    REJECT,
    /** The one that is there stays, and is the answer. */
    KEEP,
    /** It takes the place of the one that is there. */
    REPLACE;

    String word() {
        return name().toLowerCase(Locale.ROOT);
    }
}
