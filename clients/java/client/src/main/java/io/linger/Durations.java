package io.linger;

import java.math.BigDecimal;
import java.time.Duration;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Lengths of time as the server writes them: `500ms`, `2h30m`, `7d`. */
final class Durations {
    private static final Pattern PART = Pattern.compile("(\\d{1,12}(?:\\.\\d{1,9})?)(d|h|ms|m|s|$)");

    private Durations() {}

    static String text(Duration length) {
        return length.toMillis() + "ms";
    }

    static Duration parse(String text) {
        Duration sum = Duration.ZERO;
        Matcher part = PART.matcher(text);
        int at = 0;
        while (at < text.length() && part.find(at) && part.start() == at) {
            long nanos = new BigDecimal(part.group(1)).multiply(BigDecimal.valueOf(nanos(part.group(2)))).longValue();
            sum = sum.plusNanos(nanos);
            at = part.end();
        }
        if (text.isEmpty() || at < text.length()) {
            throw new IllegalArgumentException("`" + text + "` is no length of time; write it as 500ms, 30s, 2h30m or 7d");
        }
        return sum;
    }

    private static long nanos(String unit) {
        switch (unit) {
            case "d":
                return 86_400_000_000_000L;
            case "h":
                return 3_600_000_000_000L;
            case "m":
                return 60_000_000_000L;
            case "ms":
                return 1_000_000L;
            default:
                return 1_000_000_000L;
        }
    }
}
