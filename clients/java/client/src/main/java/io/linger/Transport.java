package io.linger;

import java.io.IOException;
import java.net.ConnectException;
import java.net.NoRouteToHostException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpConnectTimeoutException;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import javax.net.ssl.SSLHandshakeException;

/** Makes calls: to which of the servers, and how often. */
final class Transport {
    /** Before a server is asked a second time, so that what it lacked for a moment may be there. */
    private static final Duration PAUSE = Duration.ofMillis(100);

    private final List<String> servers;
    private final String key;
    private final Duration timeout;
    private final HttpClient http;
    private final AtomicInteger current = new AtomicInteger();

    Transport(List<String> servers, String key, Duration timeout, HttpClient http) {
        this.servers = servers;
        this.key = key;
        this.timeout = timeout;
        this.http = http;
    }

    List<String> servers() {
        return servers;
    }

    /** The answer; null if the second try found that the first one, whose answer was lost, had done it. */
    Answer send(Call call) {
        int first = current.get();
        int triesMax = Math.max(2, servers.size());
        boolean lost = false;
        boolean doubtful = false;
        for (int tries = 1; ; tries++) {
            int server = (first + tries - 1) % servers.size();
            try {
                return once(servers.get(server), call);
            } catch (Refused refused) {
                if (doubtful && call.isDoneWhen(refused.error.code())) {
                    return null;
                }
                if (refused.fate == Fate.ANSWERED) {
                    throw refused.error;
                }
                current.compareAndSet(server, (server + 1) % servers.size());
                boolean answerLost = refused.fate == Fate.LOST;
                boolean mayBeDone = refused.fate != Fate.NOT_DONE;
                if (tries == triesMax || answerLost && lost || mayBeDone && !call.repeatable) {
                    throw refused.error;
                }
                lost |= answerLost;
                doubtful |= mayBeDone;
            }
            if (servers.size() == 1) {
                pause();
            }
        }
    }

    private Answer once(String server, Call call) throws Refused {
        HttpResponse<String> response = exchange(server, request(server, call), timeout.plus(call.wait));
        int status = response.statusCode();
        Json json;
        try {
            json = Json.parse(response.body());
            if (status >= 400) {
                LingerException error = LingerException.of(json.get("error"), status);
                throw new Refused(fate(error), error);
            }
        } catch (IllegalArgumentException | IllegalStateException | NullPointerException strange) {
            throw notOurs(server, status);
        }
        return new Answer(json, Lease.serverTime(response.headers().firstValue("date").orElse("")));
    }

    private HttpRequest request(String server, Call call) {
        HttpRequest.BodyPublisher body = call.body == null
                ? HttpRequest.BodyPublishers.noBody()
                : HttpRequest.BodyPublishers.ofString(Json.write(call.body), StandardCharsets.UTF_8);
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(server + call.path))
                .method(call.method, body)
                .timeout(timeout.plus(call.wait))
                .header("content-type", "application/json");
        if (key != null) {
            request.header("authorization", "Bearer " + key);
        }
        if (call.idempotencyKey != null) {
            request.header("idempotency-key", call.idempotencyKey);
        }
        return request.build();
    }

    private HttpResponse<String> exchange(String server, HttpRequest request, Duration limit) throws Refused {
        CompletableFuture<HttpResponse<String>> answer =
                http.sendAsync(request, HttpResponse.BodyHandlers.ofString(StandardCharsets.UTF_8));
        try {
            // The request's own time-out ends with the head of the answer; this one holds for its body too.
            return answer.get(limit.toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException late) {
            answer.cancel(true);
            throw new Refused(Fate.LOST, unavailable(server, "did not answer within " + limit.toMillis() + " ms", late));
        } catch (ExecutionException failed) {
            Throwable cause = failed.getCause();
            throw new Refused(isUnsent(cause) ? Fate.NOT_DONE : Fate.LOST, unavailable(server, text(cause), cause));
        } catch (InterruptedException interrupted) {
            // Hangs up, so that a pop that waits leases nothing (from Java 16 on).
            answer.cancel(true);
            throw interrupted(interrupted);
        }
    }

    private static boolean isUnsent(Throwable cause) {
        return cause instanceof ConnectException || cause instanceof HttpConnectTimeoutException
                || cause instanceof NoRouteToHostException || cause instanceof SSLHandshakeException;
    }

    private static String text(Throwable cause) {
        String kind = cause instanceof ConnectException ? "cannot be reached" : cause.getClass().getSimpleName();
        return cause.getMessage() == null ? kind : kind + ": " + cause.getMessage();
    }

    private static LingerException unavailable(String server, String what, Throwable cause) {
        return new LingerException(Code.UNAVAILABLE, server + " " + what, cause);
    }

    private static Fate fate(LingerException error) {
        switch (error.code()) {
            case OVERLOADED:
                return Fate.NOT_DONE;
            case UNAVAILABLE:
                return Fate.UNKNOWN;
            default:
                return Fate.ANSWERED;
        }
    }

    /** An answer of something between: what the server behind it has done is not known. */
    private static Refused notOurs(String server, int status) {
        boolean gateway = status >= 502 && status <= 504;
        String message = server + " answered " + status + ", and not as Linger does";
        return new Refused(gateway ? Fate.LOST : Fate.ANSWERED,
                new LingerException(gateway ? Code.UNAVAILABLE : Code.UNKNOWN, message, null, status));
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE.toMillis());
        } catch (InterruptedException interrupted) {
            throw interrupted(interrupted);
        }
    }

    private static LingerException interrupted(InterruptedException cause) {
        Thread.currentThread().interrupt();
        return new LingerException(Code.UNAVAILABLE, "the calling thread was interrupted", cause);
    }

    /** What is known of a call that came to nothing. */
    private enum Fate {
        /** It was never carried out: there was no connection, or no room. */
        NOT_DONE,
        /** It may have been carried out: there was no answer. */
        LOST,
        /** It may have been carried out: on Redis the server itself may not know. */
        UNKNOWN,
        /** The server has said its last word. */
        ANSWERED
    }

    private static final class Refused extends IOException {
        private static final long serialVersionUID = 1;
        private final Fate fate;
        private final LingerException error;

        Refused(Fate fate, LingerException error) {
            this.fate = fate;
            this.error = error;
        }
    }
}
