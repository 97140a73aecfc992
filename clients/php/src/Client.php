<?php

declare(strict_types=1);

namespace Linger;

use Linger\Http\Meanwhile;
use Linger\Http\Request;
use Linger\Http\Response;
use Linger\Http\StreamTransport;
use Linger\Http\Transport;
use Linger\Http\TransportException;

/**
 * Calls a Linger server, or one of several that share a store.
 *
 * Lengths of time are seconds, a DateInterval, or text as the server takes it (`30m`); moments are DateTimeInterface,
 * or text. What is wrong with a call is for the server to say: every method throws a LingerException.
 */
final class Client
{
    private const DEFAULT_SERVER = 'http://127.0.0.1:7300';
    /** Before a lone server is asked again that has just refused. */
    private const PAUSE_MICROSECONDS = 100_000;

    /** @var non-empty-list<string> */
    private readonly array $servers;
    private readonly string $key;
    private Transport $transport;
    /** Which of the servers is called. */
    private int $current = 0;

    /**
     * @param string|list<string>|null $servers        one address or several; by default those of `LINGER_SERVER`
     * @param string|null              $key            the API key; by default that of `LINGER_KEY`
     * @param float                    $connectTimeout seconds until a connection must stand
     * @param float                    $timeout        seconds until an answer must be there; for a pop besides its wait
     * @param string|null              $ca             a file in PEM with authorities to trust for https
     * @param Transport|null           $transport      another way to call than PHP's streams; then `$ca` is its matter
     */
    public function __construct(
        string|array|null $servers = null,
        #[\SensitiveParameter] ?string $key = null,
        private readonly float $connectTimeout = 5.0,
        private readonly float $timeout = 10.0,
        ?string $ca = null,
        ?Transport $transport = null,
    ) {
        $servers ??= (string) getenv('LINGER_SERVER');
        $servers = is_array($servers) ? $servers : explode(',', $servers);
        $servers = array_map(static fn (string $server) => rtrim(trim($server), '/'), $servers);
        $this->servers = array_values(array_filter($servers, 'strlen')) ?: [self::DEFAULT_SERVER];
        $this->key = $key ?? (string) getenv('LINGER_KEY');
        $this->transport = $transport ?? new StreamTransport($ca);
    }

    /** A clone has connections of its own. */
    public function __clone()
    {
        $this->transport = clone $this->transport;
    }

    /**
     * Adds a job.
     *
     * @param string|null $idempotencyKey for a job without an id: a second call with the same key finds what the first
     *                                    has added; each call has one of its own unless given
     */
    public function add(NewJob $job, ?string $idempotencyKey = null): Job
    {
        $headers = $job->id === null ? ['idempotency-key' => $idempotencyKey ?? Uuid::random()] : [];
        $repeat = $job->id === null ? Repeat::Safe : self::repeatOfAdd($job->fields());
        return new Job($this->ask('POST', '/v1/jobs', Fields::json($job->fields()), $repeat, $headers));
    }

    /**
     * Adds many, each by itself, and answers in their order the job, or why it was refused.
     *
     * A job without an id is given one, so that the call can be made again if its answer is lost.
     *
     * @param  list<NewJob> $jobs
     * @return list<Job|LingerException>
     */
    public function addMany(array $jobs): array
    {
        $all = array_map(self::named(...), array_values($jobs));
        $repeats = array_map(self::repeatOfAdd(...), $all);
        $repeat = in_array(Repeat::Never, $repeats, true) ? Repeat::Never : Repeat::Safe;
        $body = '[' . implode(',', array_map(Fields::json(...), $all)) . ']';
        return array_map(
            static fn (array $item) => isset($item['error'])
                ? LingerException::fromError($item['error'])
                : new Job($item['job']),
            $this->ask('POST', '/v1/jobs', $body, $repeat),
        );
    }

    /** The job, with its body. */
    public function get(string $topic, string $id): Job
    {
        return new Job($this->ask('GET', self::path($topic, $id), '', Repeat::Safe));
    }

    /**
     * What happened to a job, oldest first.
     *
     * @return list<array<string, mixed>>
     */
    public function history(string $topic, string $id): array
    {
        return $this->send('GET', self::path($topic, $id) . '/history', '', Repeat::Safe)['history'];
    }

    /**
     * Changes a job that waits.
     *
     * @param array<string, mixed> $changes   `delay` or `at`, `body`, `priority`, `ttr`, `retry`, `target`; null takes
     *                                        the job's own value away
     * @param int|null             $ifVersion only if it still has this version
     */
    public function update(string $topic, string $id, array $changes, ?int $ifVersion = null): Changed
    {
        $fields = $changes + Fields::given(['if_version' => $ifVersion]);
        $repeat = $ifVersion === null ? Repeat::Safe : Repeat::Never;
        return self::changed($this->ask('PATCH', self::path($topic, $id), Fields::json($fields), $repeat));
    }

    /** Cancels a job. */
    public function delete(string $topic, string $id, ?int $ifVersion = null): Changed
    {
        $query = self::query(['if_version' => $ifVersion]);
        $repeat = $ifVersion === null ? Repeat::Deletes : Repeat::Never;
        return self::changed($this->ask('DELETE', self::path($topic, $id) . $query, '', $repeat));
    }

    /** Makes a job ready now. */
    public function run(string $topic, string $id): Changed
    {
        return $this->change($topic, $id, 'run', [], Repeat::Never);
    }

    /** Sets a job aside. */
    public function hold(string $topic, string $id): Changed
    {
        return $this->change($topic, $id, 'hold', [], Repeat::Safe);
    }

    /** Lets a job go that was set aside. */
    public function unhold(string $topic, string $id): Changed
    {
        return $this->change($topic, $id, 'unhold', [], Repeat::Safe);
    }

    /**
     * Leases jobs that are due, each with its `lease`; none when the wait is over.
     *
     * @param string|list<string>                 $topics
     * @param int                                 $max       how many at most
     * @param \DateInterval|int|float|string|null $wait      how long to wait for the first
     * @param \DateInterval|int|float|string|null $ttr       how long the leases last, in place of the jobs' own ttr
     * @param Meanwhile|null                      $meanwhile what to do while it waits, for those who have a loop of
     *                                                       their own
     *
     * @return list<Job>
     */
    public function pop(
        string|array $topics,
        int $max = 1,
        \DateInterval|int|float|string|null $wait = null,
        \DateInterval|int|float|string|null $ttr = null,
        ?Meanwhile $meanwhile = null,
    ): array {
        $ask = Fields::given(['topics' => (array) $topics, 'max' => $max, 'wait' => $wait, 'ttr' => $ttr]);
        $seconds = Duration::seconds($wait);
        $response = $this->exchange('POST', '/v1/pop', Fields::json($ask), Repeat::Safe, [], $seconds, $meanwhile);
        $jobs = [];
        foreach (self::decodeJobs($response)['jobs'] as $fields) {
            $jobs[] = new Job($fields, Lease::secondsLeft($fields['reserved_until'], $response));
        }
        return $jobs;
    }

    /**
     * Says that a job is done.
     *
     * @param Job|string $topic a job that was popped; or a topic, with the id and the lease. Without a lease it holds
     *                          whoever has the job
     */
    public function finish(Job|string $topic, ?string $id = null, ?string $lease = null): Changed
    {
        return $this->settle('finish', $topic, $id, $lease, []);
    }

    /**
     * Says that a job failed: it is tried again as its `retry` has it.
     *
     * @param Job|string                          $topic   as for `finish`
     * @param string|null                         $error   why, for people
     * @param \DateInterval|int|float|string|null $retryIn when to try again, in place of what its `retry` says
     * @param bool                                $again   not yet: told apart from failures
     */
    public function fail(
        Job|string $topic,
        ?string $id = null,
        ?string $lease = null,
        ?string $error = null,
        \DateInterval|int|float|string|null $retryIn = null,
        bool $again = false,
    ): Changed {
        $fields = ['error' => $error, 'retry_in' => $retryIn, 'again' => $again ?: null];
        return $this->settle('fail', $topic, $id, $lease, $fields);
    }

    /**
     * Gives a job back; the attempt does not count.
     *
     * @param Job|string $topic as for `finish`
     */
    public function release(
        Job|string $topic,
        ?string $id = null,
        ?string $lease = null,
        \DateInterval|int|float|string|null $delay = null,
        ?int $priority = null,
    ): Changed {
        return $this->settle('release', $topic, $id, $lease, ['delay' => $delay, 'priority' => $priority]);
    }

    /**
     * Gives a lease its full length again, or that of `$ttr`.
     *
     * @param Job|string $topic as for `finish`
     */
    public function touch(
        Job|string $topic,
        ?string $id = null,
        ?string $lease = null,
        \DateInterval|int|float|string|null $ttr = null,
    ): Changed {
        [$topic, $id, $lease] = self::leased($topic, $id, $lease);
        $body = Fields::json(Fields::given(['lease' => $lease, 'ttr' => $ttr]));
        $response = $this->exchange('POST', self::path($topic, $id) . '/touch', $body, Repeat::Safe);
        $answer = self::decodeJobs($response);
        $until = $answer['job']['reserved_until'] ?? null;
        return self::changed($answer, $until === null ? 0.0 : Lease::secondsLeft($until, $response));
    }

    /**
     * The jobs of a topic, page after page as they are asked for.
     *
     * @param int|null  $limit how many a page has
     * @param bool|null $body  whether they come with their bodies
     *
     * @return \Generator<int, Job>
     */
    public function jobs(
        string $topic,
        ?string $state = null,
        \DateTimeInterface|int|string|null $dueBefore = null,
        \DateTimeInterface|int|string|null $dueAfter = null,
        ?string $idPrefix = null,
        ?string $error = null,
        ?int $limit = null,
        ?bool $body = null,
    ): \Generator {
        $filter = ['state' => $state, 'due_before' => $dueBefore, 'due_after' => $dueAfter, 'id_prefix' => $idPrefix,
            'error' => $error, 'limit' => $limit, 'body' => $body];
        foreach ($this->pages(self::path($topic) . '/jobs', $filter, 'jobs') as $fields) {
            yield new Job($fields);
        }
    }

    /**
     * The topics, page after page as they are asked for.
     *
     * @return \Generator<int, Topic>
     */
    public function topics(?string $prefix = null, ?int $limit = null): \Generator
    {
        foreach ($this->pages('/v1/topics', ['prefix' => $prefix, 'limit' => $limit], 'topics') as $fields) {
            yield new Topic($fields);
        }
    }

    /** A topic, with its counts and settings. */
    public function topic(string $topic): Topic
    {
        return new Topic($this->send('GET', self::path($topic), '', Repeat::Safe));
    }

    /**
     * Gives a topic settings, in place of all it had.
     *
     * @param array<string, mixed> $settings `ttr`, `retry`, `target`, `rate`, `concurrency`, … as the API names them
     */
    public function configure(string $topic, array $settings): Topic
    {
        return new Topic($this->send('PUT', self::path($topic), Fields::json($settings), Repeat::Safe));
    }

    /** Removes a topic's jobs and settings; answers how many jobs there were, 0 if that answer was lost. */
    public function forget(string $topic): int
    {
        return $this->send('DELETE', self::path($topic), '', Repeat::Deletes)['count'] ?? 0;
    }

    /** Hands out nothing of a topic until it is resumed, or for a while. */
    public function pause(string $topic, \DateInterval|int|float|string|null $for = null): Topic
    {
        $body = Fields::json(Fields::given(['for' => $for]));
        return new Topic($this->send('POST', self::path($topic) . '/pause', $body, Repeat::Safe));
    }

    /** Hands out a topic's jobs again. */
    public function resume(string $topic): Topic
    {
        return new Topic($this->send('POST', self::path($topic) . '/resume', '{}', Repeat::Safe));
    }

    /** Removes a topic's jobs; answers how many there were, 0 if that answer was lost. */
    public function empty(string $topic): int
    {
        return $this->send('POST', self::path($topic) . '/empty', '{}', Repeat::Deletes)['count'] ?? 0;
    }

    /** Lets a topic's dead jobs try again from the start; answers how many there were. */
    public function redrive(string $topic): int
    {
        return $this->send('POST', self::path($topic) . '/redrive', '{}', Repeat::Never)['count'];
    }

    /**
     * Any call of the API, such as `call('POST', '/v1/secrets', ['topic' => 'mail'])`.
     *
     * @param array<string, mixed>|null $fields what is sent as JSON
     * @param bool                      $repeat whether it may be made once more if its answer is lost
     *
     * @return array<mixed>
     */
    public function call(string $method, string $path, ?array $fields = null, bool $repeat = false): array
    {
        $body = $fields === null ? '' : Fields::json($fields);
        return $this->send($method, $path, $body, $repeat ? Repeat::Safe : Repeat::Never);
    }

    /** Closes connections that are kept for the next call. To be called before a fork. */
    public function disconnect(): void
    {
        if ($this->transport instanceof StreamTransport) {
            $this->transport->disconnect();
        }
    }

    /** Whether a call that waits can be given up. */
    public function canHangUp(): bool
    {
        return $this->transport instanceof StreamTransport;
    }

    /** @param array<string, mixed> $fields */
    private function settle(string $how, Job|string $topic, ?string $id, ?string $lease, array $fields): Changed
    {
        [$topic, $id, $lease] = self::leased($topic, $id, $lease);
        $fields = Fields::given(['lease' => $lease] + $fields);
        return $this->change($topic, $id, $how, $fields, $lease === null ? Repeat::Never : Repeat::Settles);
    }

    /** @param array<string, mixed> $fields */
    private function change(string $topic, string $id, string $how, array $fields, Repeat $repeat): Changed
    {
        $path = self::path($topic, $id) . "/$how";
        return self::changed($this->ask('POST', $path, Fields::json($fields), $repeat));
    }

    /**
     * @param  array<string, mixed> $filter
     * @return \Generator<int, array<string, mixed>>
     */
    private function pages(string $path, array $filter, string $what): \Generator
    {
        do {
            $response = $this->exchange('GET', $path . self::query($filter), '', Repeat::Safe);
            $page = $what === 'jobs' ? self::decodeJobs($response) : self::decode($response);
            foreach ($page[$what] as $fields) {
                yield $fields;
            }
            $filter['cursor'] = $page['cursor'] ?? null;
        } while ($filter['cursor'] !== null);
    }

    /**
     * @param  array<string, string> $headers
     * @return array<mixed>
     */
    private function send(string $method, string $path, string $body, Repeat $repeat, array $headers = []): array
    {
        return self::decode($this->exchange($method, $path, $body, $repeat, $headers));
    }

    /**
     * Makes a call whose answer tells of jobs.
     *
     * @param  array<string, string> $headers
     * @return array<mixed>
     */
    private function ask(string $method, string $path, string $body, Repeat $repeat, array $headers = []): array
    {
        return self::decodeJobs($this->exchange($method, $path, $body, $repeat, $headers));
    }

    /**
     * Makes a call, at the next server or once more if that is harmless.
     *
     * @param array<string, string> $headers
     */
    private function exchange(
        string $method,
        string $path,
        string $body,
        Repeat $repeat,
        array $headers = [],
        float $wait = 0.0,
        ?Meanwhile $meanwhile = null,
    ): Response {
        $tries = max(2, count($this->servers));
        $lost = $doubt = false;
        $at = $this->current;
        for ($try = 1;; $try++) {
            try {
                return $this->attempt($this->servers[$at], $method, $path, $body, $headers, $wait, $meanwhile);
            } catch (LingerException $refusal) {
                if ($doubt && $repeat->isDoneBy($refusal->reason)) {
                    return new Response(200, [], '{"changed":true}');
                }
                if (!self::isAway($refusal)) {
                    throw $refusal;
                }
                $next = ($at + 1) % count($this->servers);
                // A call that was made meanwhile may have gone on already.
                $this->current = $this->current === $at ? $next : $this->current;
                $at = $next;
                $mayBeDone = !$refusal->nothingDone;
                $wasLost = $mayBeDone && $refusal->status !== 503;
                if ($try === $tries || ($wasLost && $lost) || ($mayBeDone && $repeat === Repeat::Never)) {
                    throw $refusal;
                }
                $lost = $lost || $wasLost;
                $doubt = $doubt || $mayBeDone;
                if (count($this->servers) === 1 && !$wasLost) {
                    usleep(self::PAUSE_MICROSECONDS);
                }
            }
        }
    }

    /** @param array<string, string> $headers */
    private function attempt(
        string $server,
        string $method,
        string $path,
        string $body,
        array $headers,
        float $wait,
        ?Meanwhile $meanwhile,
    ): Response {
        if ($body !== '') {
            $headers['content-type'] = 'application/json';
        }
        if ($this->key !== '') {
            $headers['authorization'] = "Bearer $this->key";
        }
        $timeout = $this->timeout + $wait;
        $request = new Request($method, $server . $path, $headers, $body, $this->connectTimeout, $timeout);
        try {
            $response = $this->transport->send($request, $meanwhile);
        } catch (TransportException $why) {
            $message = "$server: {$why->getMessage()}";
            throw LingerException::of(Code::Unavailable, $message, null, null, !$why->sent, $why);
        }
        return $response->status < 300 ? $response : throw self::refusal($response);
    }

    private static function refusal(Response $response): LingerException
    {
        $answer = json_decode($response->body, true);
        if (isset($answer['error']['code'])) {
            return LingerException::fromError($answer['error'], $response->status);
        }
        // It came from something in between, which may or may not have passed the call on.
        $reason = in_array($response->status, [502, 503, 504], true) ? Code::Unavailable : Code::Unknown;
        $message = "answered $response->status, and not by Linger";
        return LingerException::of($reason, $message, null, $response->status, false);
    }

    private static function isAway(LingerException $refusal): bool
    {
        return $refusal->reason === Code::Unavailable || $refusal->reason === Code::Overloaded;
    }

    /** @return array<mixed> */
    private static function decode(Response $response): array
    {
        // A number that PHP cannot hold becomes text, which loses nothing of it.
        return self::checked(json_decode($response->body, true, 512, JSON_BIGINT_AS_STRING), $response);
    }

    /** @return array<mixed> */
    private static function decodeJobs(Response $response): array
    {
        return self::checked(Envelope::decode($response->body), $response);
    }

    /** @return array<mixed> */
    private static function checked(mixed $answer, Response $response): array
    {
        if (!is_array($answer) && $response->body !== '') {
            throw LingerException::of(Code::Unknown, 'the answer is not JSON', null, $response->status, false);
        }
        return $answer ?? [];
    }

    /** @param array<string, mixed> $answer */
    private static function changed(array $answer, float $leaseLeft = 0.0): Changed
    {
        $job = isset($answer['job']) ? new Job($answer['job'], $leaseLeft) : null;
        return new Changed($answer['changed'], $job);
    }

    /** @param array<string, mixed> $fields */
    private static function repeatOfAdd(array $fields): Repeat
    {
        $harmless = in_array($fields['on_conflict'] ?? 'reject', ['keep', 'replace'], true);
        return $harmless ? Repeat::Safe : Repeat::Never;
    }

    /** @return array<string, mixed> */
    private static function named(NewJob $job): array
    {
        $fields = $job->fields();
        return $job->id === null ? $fields + ['id' => Uuid::random(), 'on_conflict' => 'keep'] : $fields;
    }

    /** @return array{string, string, string|null} */
    private static function leased(Job|string $topic, ?string $id, ?string $lease): array
    {
        return $topic instanceof Job ? [$topic->topic, $topic->id, $topic->lease] : [$topic, (string) $id, $lease];
    }

    private static function path(string $topic, ?string $id = null): string
    {
        return '/v1/topics/' . self::segment($topic) . ($id === null ? '' : '/jobs/' . self::segment($id));
    }

    /** A path does not keep `.` and `..` as they are. */
    private static function segment(string $text): string
    {
        return $text === '.' || $text === '..' ? str_replace('.', '%2E', $text) : rawurlencode($text);
    }

    /** @param array<string, mixed> $parameters */
    private static function query(array $parameters): string
    {
        $texts = array_map(
            static fn (mixed $value) => match (true) {
                is_bool($value) => $value ? 'true' : 'false',
                $value instanceof \DateTimeInterface => (string) Fields::moment($value),
                default => (string) $value,
            },
            Fields::given($parameters),
        );
        return $texts === [] ? '' : '?' . http_build_query($texts, '', '&', PHP_QUERY_RFC3986);
    }
}
