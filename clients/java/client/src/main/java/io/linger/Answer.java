package io.linger;

import java.time.Instant;

/** What the server said, and what time it was there. */
final class Answer {
    final Json json;
    final Instant serverTime;

    Answer(Json json, Instant serverTime) {
        this.json = json;
        this.serverTime = serverTime;
    }
}
