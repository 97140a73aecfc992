package io.linger;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** Replays what every client must do alike. */
class ScenarioTest {
    private static TestServer server;
    private static Client client;

    @BeforeAll
    static void start() {
        server = TestServer.start();
        client = server.client();
    }

    @AfterAll
    static void stop() {
        server.close();
    }

    @TestFactory
    List<DynamicTest> scenarios() throws IOException {
        try (Stream<Path> files = Files.list(TestServer.clients().resolve("scenarios"))) {
            List<DynamicTest> tests = files.filter(file -> file.toString().endsWith(".json"))
                    .sorted()
                    .map(file -> DynamicTest.dynamicTest(file.getFileName().toString(), () -> replay(file)))
                    .collect(Collectors.toList());
            assertTrue(tests.size() >= 10, "the scenarios are not there");
            return tests;
        }
    }

    private static void replay(Path file) throws IOException {
        Map<String, String> saved = new LinkedHashMap<>();
        int number = 0;
        for (Json step : Json.parse(Files.readString(file)).get("steps").items()) {
            String where = "step " + number++ + ": " + step;
            Json args = Json.parse(filledIn(step.get("args").raw(), saved));
            Json error = step.get("error");
            try {
                Json answer = Json.parse(call(step.get("call").text(), args));
                assertEquals(null, error, where + " was answered " + answer);
                expect(Json.parse(filledIn(step.get("expect").raw(), saved)), answer, where + " was answered " + answer);
                save(step.get("save"), answer, saved);
            } catch (LingerException refused) {
                assertNotNull(error, where + " was refused: " + refused.getMessage());
                assertEquals(Code.of(error.get("code").text()), refused.code(), where);
                if (error.get("status") != null) {
                    assertEquals(error.get("status").number().intValue(), refused.status().orElse(0), where);
                }
                if (error.get("field") != null) {
                    assertEquals(error.get("field").text(), refused.field().orElse(null), where);
                }
            }
        }
    }

    private static String filledIn(String text, Map<String, String> saved) {
        for (Map.Entry<String, String> entry : saved.entrySet()) {
            text = text.replace("\"$" + entry.getKey() + "\"", entry.getValue());
        }
        return text;
    }

    private static void save(Json save, Json answer, Map<String, String> saved) {
        if (save == null) {
            return;
        }
        save.fields().forEach((name, path) -> {
            Json at = answer;
            for (String part : path.text().split("\\.")) {
                at = at.isList() ? at.items().get(Integer.parseInt(part)) : at.get(part);
            }
            saved.put(name, at.raw());
        });
    }

    private static void expect(Json expected, Json found, String where) {
        if (expected.isText() && expected.text().equals("$any")) {
            assertNotNull(found, where);
        } else if (expected.isText() && expected.text().equals("$absent")) {
            assertEquals(null, found, where);
        } else if (found == null) {
            fail("nothing is there for " + expected + " in " + where);
        } else if (expected.isObject() && expected.get("$length") != null) {
            assertEquals(expected.get("$length").number().intValue(), found.items().size(), where);
        } else if (expected.isObject()) {
            expected.fields().forEach((name, value) -> expect(value, found.get(name), where));
        } else if (expected.isList()) {
            assertEquals(expected.items().size(), found.items().size(), where);
            for (int at = 0; at < expected.items().size(); at++) {
                expect(expected.items().get(at), found.items().get(at), where);
            }
        } else if (expected.isText()) {
            assertEquals(expected.text(), found.text(), where);
        } else {
            assertEquals(expected.raw(), found.raw(), where);
        }
    }

    private static String call(String name, Json args) {
        Map<String, Json> given = args.fields();
        String topic = given.containsKey("topic") ? given.get("topic").text() : null;
        String id = given.containsKey("id") ? given.get("id").text() : null;
        JobRef job = JobRef.of(topic, id, given.containsKey("lease") ? given.get("lease").text() : null);
        switch (name) {
            case "add":
                return client.add(newJob(args)).json().raw();
            case "add_many":
                return client.addMany(args.get("jobs").items().stream().map(ScenarioTest::newJob).collect(Collectors.toList()))
                        .stream().map(added -> added.json().raw()).collect(Collectors.joining(",", "[", "]"));
            case "get":
                return client.get(topic, id).json().raw();
            case "update":
                return client.update(topic, id, changes(args)).json().raw();
            case "delete":
                return client.delete(topic, id).json().raw();
            case "history":
                return list("history", client.history(topic, id).stream().map(Event::json));
            case "run":
                return client.run(topic, id).json().raw();
            case "hold":
                return client.hold(topic, id).json().raw();
            case "unhold":
                return client.unhold(topic, id).json().raw();
            case "pop":
                return list("jobs", client.pop(pop(args)).stream().map(Job::json));
            case "finish":
                return client.finish(job).json().raw();
            case "fail":
                return client.fail(job, failure(args)).json().raw();
            case "release":
                return client.release(job).json().raw();
            case "touch":
                return client.touch(job, Durations.parse(args.get("ttr").text())).json().raw();
            case "jobs":
                return client.jobs(topic, Filter.all().state(args.get("state").text())).json().raw();
            case "topics":
                return client.topics(args.get("prefix").text()).json().raw();
            case "topic":
                return client.topic(topic).json().raw();
            case "configure":
                return client.configure(topic, settings(args.get("settings"))).json().raw();
            case "forget":
                return count(client.forget(topic));
            case "pause":
                return client.pause(topic, Durations.parse(args.get("for").text())).json().raw();
            case "resume":
                return client.resume(topic).json().raw();
            case "empty":
                return count(client.empty(topic));
            case "redrive":
                return count(client.redrive(topic));
            default:
                throw new AssertionError("the scenario calls " + name);
        }
    }

    private static String list(String name, Stream<Json> items) {
        return Json.write(Map.of(name, items.collect(Collectors.toList())));
    }

    private static String count(long count) {
        return Json.write(Map.of("count", count));
    }

    private static NewJob newJob(Json args) {
        NewJob job = NewJob.of(args.get("topic").text());
        args.fields().forEach((name, value) -> {
            switch (name) {
                case "topic":
                    break;
                case "id":
                    job.id(value.text());
                    break;
                case "body":
                    job.bodyJson(value.raw());
                    break;
                case "body_base64":
                    job.body(Base64.getDecoder().decode(value.text()));
                    break;
                case "delay":
                    job.delay(value.text());
                    break;
                case "at":
                    job.at(Instant.parse(value.text()));
                    break;
                case "ttr":
                    job.ttr(value.text());
                    break;
                case "priority":
                    job.priority(value.number().longValue());
                    break;
                case "retry":
                    job.retry(retry(value));
                    break;
                case "repeat":
                    job.repeat(repeat(value));
                    break;
                case "target":
                    job.target(value.text());
                    break;
                case "on_conflict":
                    job.onConflict(OnConflict.valueOf(value.text().toUpperCase(Locale.ROOT)));
                    break;
                default:
                    throw new AssertionError("the scenario adds with " + name);
            }
        });
        return job;
    }

    private static Retry retry(Json retry) {
        Json backoff = retry.get("backoff");
        return Retry.attempts(retry.get("attempts").number().longValue())
                .backoff(length(backoff.get("base")), length(backoff.get("max")));
    }

    private static Repeat repeat(Json given) {
        Repeat repeat = given.get("every") != null
                ? Repeat.every(length(given.get("every")))
                : Repeat.cron(given.get("cron").text(), ZoneId.of(given.get("tz") == null ? "UTC" : given.get("tz").text()));
        if (given.get("count") != null) {
            repeat.count(given.get("count").number().longValue());
        }
        if (given.get("misfire") != null) {
            repeat.misfireAll(given.get("misfire").get("all").number().intValue());
        }
        return repeat;
    }

    private static Duration length(Json text) {
        return Durations.parse(text.text());
    }

    private static Changes changes(Json args) {
        Changes changes = Changes.of();
        args.get("changes").fields().forEach((name, value) -> {
            switch (name) {
                case "body":
                    changes.bodyJson(value.raw());
                    break;
                case "priority":
                    changes.priority(value.number().longValue());
                    break;
                case "ttr":
                    changes.ttr(value.text());
                    break;
                case "at":
                    changes.at(Instant.parse(value.text()));
                    break;
                default:
                    throw new AssertionError("the scenario changes " + name);
            }
        });
        if (args.get("if_version") != null) {
            changes.ifVersion(args.get("if_version").number().longValue());
        }
        return changes;
    }

    private static Pop pop(Json args) {
        List<String> topics = new ArrayList<>();
        args.get("topics").items().forEach(topic -> topics.add(topic.text()));
        Pop pop = Pop.from(topics);
        if (args.get("max") != null) {
            pop.max(args.get("max").number().intValue());
        }
        if (args.get("wait") != null) {
            pop.wait(args.get("wait").text());
        }
        return pop;
    }

    private static Failure failure(Json args) {
        if (args.get("again") != null) {
            return Failure.again();
        }
        Failure failure = args.get("error") == null ? Failure.of() : Failure.of(args.get("error").text());
        return args.get("retry_in") == null ? failure : failure.retryIn(args.get("retry_in").text());
    }

    private static Settings settings(Json given) {
        Settings settings = Settings.of();
        given.fields().forEach((name, value) -> {
            switch (name) {
                case "ttr":
                    settings.ttr(length(value));
                    break;
                case "concurrency":
                    settings.concurrency(value.number().longValue());
                    break;
                case "rate":
                    settings.rate(value.text());
                    break;
                default:
                    throw new AssertionError("the scenario sets " + name);
            }
        });
        return settings;
    }
}
