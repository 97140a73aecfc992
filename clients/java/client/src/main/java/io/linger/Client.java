package io.linger;

import java.net.URI;
import java.net.URISyntaxException;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Function;
import java.util.stream.Collectors;
import javax.net.ssl.SSLContext;

/**
 * Calls Linger. One is enough for a program: it may be used by all threads at once.
 *
 * <p>Every call throws a {@link LingerException} if it is refused or cannot be made. With several servers they go to one of
 * them until that is away, then to the next. A call whose answer was lost is made once more if that is harmless.
 */
public final class Client {
    private static final String DEFAULT_SERVER = "http://127.0.0.1:7300";

    private final Transport transport;
    private final Mapper mapper;

    private Client(Transport transport, Mapper mapper) {
        this.transport = transport;
        this.mapper = mapper;
    }

    /** A client of the servers in {@code LINGER_SERVER}, with the key in {@code LINGER_KEY}. */
    public static Client create() {
        return builder().build();
    }

    /** A client of these servers, such as {@code http://127.0.0.1:7300}, with the key in {@code LINGER_KEY}. */
    public static Client of(String... servers) {
        return builder().servers(servers).build();
    }

    /** A client with settings of its own. */
    public static Builder builder() {
        return new Builder();
    }

    /** The addresses of its servers. */
    public List<String> servers() {
        return transport.servers();
    }

    // Jobs.

    /** Adds a job, and gives it back as it was stored, without its body. */
    public Job add(NewJob job) {
        String key = job.hasId() || job.idempotencyKey() != null ? job.idempotencyKey() : UUID.randomUUID().toString();
        Answer answer = send(Call.of("POST", "/v1/jobs", encoded(job))
                .idempotencyKey(key)
                .repeatable(!job.hasId() || job.isHarmlessTwice()));
        return job(answer.json, answer.serverTime);
    }

    /** Adds many jobs, up to 1,000. Each is added or refused by itself, and told in its place. */
    public List<Added> addMany(Collection<NewJob> jobs) {
        List<NewJob> named = jobs.stream().map(Client::named).collect(Collectors.toList());
        Answer answer = send(Call.of("POST", "/v1/jobs", named.stream().map(this::encoded).collect(Collectors.toList()))
                .repeatable(named.stream().allMatch(NewJob::isHarmlessTwice)));
        return answer.json.items().stream().map(item -> added(item, answer.serverTime)).collect(Collectors.toList());
    }

    /** The job, with its body. */
    public Job get(String topic, String id) {
        Answer answer = send(Call.get(path(topic, id)));
        return job(answer.json, answer.serverTime);
    }

    /** Changes a job that is not being worked on. */
    public Changed update(String topic, String id, Changes changes) {
        return changed(Call.of("PATCH", path(topic, id), encoded(changes))
                .repeatable(changes.fields().get("if_version") == null));
    }

    /** Cancels a job. */
    public Changed delete(String topic, String id) {
        return changed(Call.of("DELETE", path(topic, id), null).repeatable(true).doneWhen(Code.NOT_FOUND));
    }

    /** Cancels a job if its version is still this. */
    public Changed delete(String topic, String id, long ifVersion) {
        return changed(Call.of("DELETE", path(topic, id) + "?if_version=" + ifVersion, null));
    }

    /** What happened to a job, oldest first. */
    public List<Event> history(String topic, String id) {
        Json history = send(Call.get(path(topic, id) + "/history")).json.get("history");
        return history.items().stream().map(Event::new).collect(Collectors.toList());
    }

    /** Makes a job ready now. */
    public Changed run(String topic, String id) {
        return changed(Call.of("POST", path(topic, id) + "/run", Map.of()));
    }

    /** Sets a job aside. */
    public Changed hold(String topic, String id) {
        return changed(Call.of("POST", path(topic, id) + "/hold", Map.of()).repeatable(true));
    }

    /** Lets a job go that was set aside. */
    public Changed unhold(String topic, String id) {
        return changed(Call.of("POST", path(topic, id) + "/unhold", Map.of()).repeatable(true));
    }

    /** The jobs of a topic, page after page, without their bodies. */
    public Page<Job> jobs(String topic) {
        return jobs(topic, Filter.all());
    }

    /** Those jobs of a topic that fit, page after page. */
    public Page<Job> jobs(String topic, Filter filter) {
        return page(path(topic) + "/jobs", "jobs", filter.fields(), this::job);
    }

    // Work.

    /** Leases jobs that are due, waiting for the first if asked to; none when the wait is over. */
    public List<Job> pop(Pop pop) {
        Answer answer = send(Call.of("POST", "/v1/pop", pop).wait(pop.waits()).repeatable(true));
        return answer.json.get("jobs").items().stream().map(job -> job(job, answer.serverTime)).collect(Collectors.toList());
    }

    /** The job is done. */
    public Changed finish(JobRef job) {
        return settle(job, "/finish", Map.of());
    }

    /** The attempt failed, for this reason. */
    public Changed fail(JobRef job, String error) {
        return fail(job, Failure.of(error));
    }

    /** The attempt failed, or it is not yet time. */
    public Changed fail(JobRef job, Failure failure) {
        return settle(job, "/fail", failure.fields());
    }

    /** Gives the job back as if it had not been handed out. */
    public Changed release(JobRef job) {
        return settle(job, "/release", Map.of());
    }

    /** Gives the job back, ready again after so long. */
    public Changed release(JobRef job, Duration delay) {
        return settle(job, "/release", Map.of("delay", delay));
    }

    /** Gives the job back, ready again after so long, with this priority from now on. */
    public Changed release(JobRef job, Duration delay, long priority) {
        return settle(job, "/release", Map.of("delay", delay, "priority", priority));
    }

    /** Makes the lease last as long as before, from now. */
    public Changed touch(JobRef job) {
        return touch(job, null);
    }

    /** Makes the lease last so long from now. */
    public Changed touch(JobRef job, Duration ttr) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("ttr", ttr);
        return changed(leased(job, "/touch", fields).repeatable(true));
    }

    // Topics.

    /** All topics, page after page. */
    public Page<Topic> topics() {
        return topics("");
    }

    /** The topics whose names begin like this, page after page. */
    public Page<Topic> topics(String prefix) {
        return page("/v1/topics", "topics", Map.of("prefix", prefix), (topic, time) -> new Topic(topic));
    }

    /** One topic. */
    public Topic topic(String topic) {
        return new Topic(send(Call.get(path(topic))).json);
    }

    /** Gives a topic these settings in place of all it had. */
    public Topic configure(String topic, Settings settings) {
        return topic(Call.of("PUT", path(topic), settings));
    }

    /** Removes a topic's jobs and settings, and tells how many jobs these were, as far as that is known. */
    public long forget(String topic) {
        return count(Call.of("DELETE", path(topic), null).repeatable(true).doneWhen(Code.NOT_FOUND));
    }

    /** Hands nothing out of a topic until it is resumed. */
    public Topic pause(String topic) {
        return topic(Call.of("POST", path(topic) + "/pause", Map.of()));
    }

    /** Hands nothing out of a topic for so long. */
    public Topic pause(String topic, Duration length) {
        return topic(Call.of("POST", path(topic) + "/pause", Map.of("for", length)));
    }

    /** Hands jobs out again. */
    public Topic resume(String topic) {
        return topic(Call.of("POST", path(topic) + "/resume", Map.of()));
    }

    /** Removes a topic's jobs, and tells how many these were, as far as that is known. */
    public long empty(String topic) {
        return count(Call.of("POST", path(topic) + "/empty", Map.of()).repeatable(true).doneWhen(Code.NOT_FOUND));
    }

    /** Makes the dead jobs of a topic ready anew, and tells how many these were. */
    public long redrive(String topic) {
        return count(Call.of("POST", path(topic) + "/redrive", Map.of()));
    }

    // What the worker, the service and the receiver need.

    Mapper mapper() {
        return mapper;
    }

    /** The answer; null if it was lost, and the second try found that it is done. */
    Answer send(Call call) {
        return transport.send(call);
    }

    static String encoded(String text) {
        if (text.equals(".") || text.equals("..")) {
            // What stands between may take them for steps in a path.
            return text.replace(".", "%2E");
        }
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    private static String path(String topic) {
        return "/v1/topics/" + encoded(topic);
    }

    private static String path(String topic, String id) {
        return path(topic) + "/jobs/" + encoded(id);
    }

    private Changed settle(JobRef job, String verb, Map<String, Object> fields) {
        Call call = leased(job, verb, fields).repeatable(job.lease().isPresent());
        return changed(call.doneWhen(Code.NOT_FOUND, Code.LEASE_LOST));
    }

    private static Call leased(JobRef job, String verb, Map<String, Object> fields) {
        Map<String, Object> all = new LinkedHashMap<>(fields);
        job.lease().ifPresent(lease -> all.put("lease", lease));
        return Call.of("POST", path(job.topic(), job.id()) + verb, all);
    }

    private Changed changed(Call call) {
        Answer answer = send(call);
        return answer == null
                ? new Changed(Json.parse("{\"changed\":true}"), Instant.now())
                : new Changed(answer.json, answer.serverTime);
    }

    private Topic topic(Call call) {
        return new Topic(send(call.repeatable(true)).json);
    }

    private long count(Call call) {
        Answer answer = send(call);
        return answer == null ? 0 : answer.json.get("count").number().longValue();
    }

    private Job job(Json json, Instant serverTime) {
        return new Job(json, mapper, serverTime);
    }

    private Added added(Json json, Instant serverTime) {
        Json error = json.get("error");
        return error == null
                ? new Added(json, job(json.get("job"), serverTime), null)
                : new Added(json, null, LingerException.of(error, 0));
    }

    private static NewJob named(NewJob job) {
        return job.hasId() ? job : job.copy().id(UUID.randomUUID().toString()).onConflict(OnConflict.KEEP);
    }

    /** The fields with the body as it travels: bytes as `body_base64`, objects as what the mapper makes of them. */
    private Map<String, Object> encoded(Fields<?> of) {
        Map<String, Object> fields = new LinkedHashMap<>(of.fields());
        Object body = fields.get("body");
        if (body instanceof byte[]) {
            fields.remove("body");
            fields.put("body_base64", Base64.getEncoder().encodeToString((byte[]) body));
        } else if (mapper != null && !isPlain(body)) {
            fields.put("body", mapper.write(body));
        }
        return fields;
    }

    private static boolean isPlain(Object body) {
        return body == null || body instanceof Json || body instanceof CharSequence
                || body instanceof Number || body instanceof Boolean;
    }

    private <T> Page<T> page(String path, String list, Map<String, Object> query, Reader<T> reader) {
        Answer answer = send(Call.get(path + query(query)));
        List<T> items = new ArrayList<>();
        for (Json item : answer.json.get(list).items()) {
            items.add(reader.read(item, answer.serverTime));
        }
        Function<String, Page<T>> more = cursor -> {
            Map<String, Object> next = new LinkedHashMap<>(query);
            next.put("cursor", cursor);
            return page(path, list, next, reader);
        };
        return new Page<>(answer.json, List.copyOf(items), more);
    }

    private static String query(Map<String, Object> query) {
        return query.entrySet().stream()
                .map(entry -> entry.getKey() + "=" + encoded(String.valueOf(entry.getValue())))
                .collect(Collectors.joining("&", query.isEmpty() ? "" : "?", ""));
    }

    private interface Reader<T> {
        T read(Json json, Instant serverTime);
    }

    /** How a client is made. */
    public static final class Builder {
        private List<String> servers = addresses(System.getenv("LINGER_SERVER"));
        private String key = System.getenv("LINGER_KEY");
        private Duration connectTimeout = Duration.ofSeconds(5);
        private Duration timeout = Duration.ofSeconds(10);
        private SSLContext tls;
        private Mapper mapper;

        private Builder() {}

        /** The servers, one or several that share a store; each text may hold several with commas between them. */
        public Builder servers(String... servers) {
            this.servers = addresses(String.join(",", servers));
            return this;
        }

        /** The API key; null for none. */
        public Builder key(String key) {
            this.key = key;
            return this;
        }

        /** How long it may take until a connection stands: 5 s unless set. */
        public Builder connectTimeout(Duration timeout) {
            this.connectTimeout = timeout;
            return this;
        }

        /** How long an answer may take: 10 s unless set, and for a pop its wait besides. */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /** A file in PEM with authorities to trust besides those of the system. */
        public Builder ca(Path file) {
            return tls(Tls.trusting(file));
        }

        /** How TLS is spoken, for what a {@link #ca} does not do: certificates of the client, say. */
        public Builder tls(SSLContext tls) {
            this.tls = tls;
            return this;
        }

        /** How objects in bodies become JSON and come back. */
        public Builder mapper(Mapper mapper) {
            this.mapper = mapper;
            return this;
        }

        /** The client. */
        public Client build() {
            servers.forEach(Builder::check);
            // HTTP/1.1, where to hang up is to close the connection, and the server sees it.
            HttpClient.Builder http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(connectTimeout);
            if (tls != null) {
                http.sslContext(tls);
            }
            String given = key == null || key.isEmpty() ? null : key;
            return new Client(new Transport(servers, given, timeout, http.build()), mapper);
        }

        private static void check(String server) {
            try {
                URI address = new URI(server);
                if (("http".equals(address.getScheme()) || "https".equals(address.getScheme())) && address.getHost() != null) {
                    return;
                }
            } catch (URISyntaxException none) {
                // As below.
            }
            throw new IllegalArgumentException("the server `" + server + "` is not an address such as " + DEFAULT_SERVER);
        }

        private static List<String> addresses(String text) {
            List<String> addresses = new ArrayList<>();
            for (String address : (text == null ? "" : text).split(",")) {
                if (!address.isBlank()) {
                    addresses.add(address.trim().replaceAll("/+$", ""));
                }
            }
            return addresses.isEmpty() ? List.of(DEFAULT_SERVER) : List.copyOf(addresses);
        }
    }
}
