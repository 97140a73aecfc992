<?php

declare(strict_types=1);

namespace Linger;

use Linger\Work\Clock;

/**
 * Keeps an application registered, so that jobs with the target `worker:APP` are posted to its URL.
 *
 * Behind a web server PHP has no process of its own that lasts, so this runs beside it: `run` in a process of its own
 * (`bin/linger-register`), or `tick` and `end` within one that lasts anyway. The calls themselves go to the URL, where
 * a `WebhookHandler` or a `Receiver` waits for them.
 */
final class Registration
{
    private const PAUSE_SECONDS_MIN = 0.1;
    private const PAUSE_SECONDS_MAX = 5.0;
    private const DRAIN_POLL_SECONDS = 0.1;

    private ?string $id = null;
    private float $nextAt = 0.0;
    private float $beatEvery = 0.0;
    private float $pause = self::PAUSE_SECONDS_MIN;
    private readonly \Closure $log;

    /**
     * @param string                              $app    the application's name
     * @param string                              $url    where it is called
     * @param list<string>                        $topics which it serves
     * @param \DateInterval|int|float|string|null $lease  how long it is known without a heartbeat
     * @param float                               $grace  seconds that calls under way have to end after a stop
     * @param callable(string): void|null         $log    told what goes wrong; error_log() unless given
     */
    public function __construct(
        private readonly Client $client,
        private readonly string $app,
        private readonly string $url,
        private readonly array $topics,
        private readonly \DateInterval|int|float|string|null $lease = null,
        private readonly float $grace = 30.0,
        ?callable $log = null,
    ) {
        $this->log = ($log ?? static fn (string $text) => error_log("linger: $text"))(...);
    }

    /** Its name at the server; null before it is registered. */
    public function id(): ?string
    {
        return $this->id;
    }

    /**
     * Registers, beats and at SIGTERM or SIGINT drains and deregisters. Needs ext-pcntl.
     *
     * @throws LingerException if the server refuses it for good: a wrong key, a wrong topic
     */
    public function run(): void
    {
        $signals = [SIGTERM, SIGINT];
        // Blocked and asked for, so that none is missed between a look and a sleep.
        pcntl_sigprocmask(SIG_BLOCK, $signals);
        do {
            $seconds = $this->tick();
            $nanoseconds = (int) (fmod($seconds, 1) * 1e9);
        } while (!in_array(pcntl_sigtimedwait($signals, $info, (int) $seconds, $nanoseconds), $signals, true));
        $this->end();
        pcntl_sigprocmask(SIG_UNBLOCK, $signals);
    }

    /**
     * Registers or sends a heartbeat if it is time to; answers in how many seconds it wants to be called again.
     *
     * @throws LingerException if the server refuses it for good: a wrong key, a wrong topic
     */
    public function tick(): float
    {
        if ($this->nextAt <= Clock::now()) {
            try {
                $this->id === null ? $this->register() : $this->beat($this->id);
                $this->pause = self::PAUSE_SECONDS_MIN;
                $this->nextAt = Clock::now() + $this->beatEvery;
            } catch (LingerException $refusal) {
                $this->refused($refusal);
            }
        }
        return max(0.0, $this->nextAt - Clock::now());
    }

    /** Asks for no more calls, lets those under way end, and deregisters. */
    public function end(): void
    {
        if ($this->id === null) {
            return;
        }
        $path = self::path($this->id);
        $this->id = null;
        try {
            $this->client->call('POST', "$path/drain", repeat: true);
            $until = Clock::now() + $this->grace;
            while ($this->client->call('GET', $path, repeat: true)['under_way'] > 0 && Clock::now() < $until) {
                usleep((int) (self::DRAIN_POLL_SECONDS * 1e6));
            }
            $this->client->call('DELETE', $path, repeat: true);
        } catch (Exception\NotFound) {
            // Forgotten already, which is all that was wanted.
        } catch (LingerException $refusal) {
            ($this->log)("not deregistered: {$refusal->getMessage()}");
        }
    }

    private function register(): void
    {
        $fields = ['app' => $this->app, 'url' => $this->url, 'topics' => $this->topics, 'lease' => $this->lease];
        $worker = $this->client->call('POST', '/v1/workers', Fields::given($fields), true);
        $this->id = $worker['id'];
        $this->beatEvery = Duration::seconds($worker['lease']) / 3;
    }

    private function beat(string $id): void
    {
        try {
            $this->client->call('PUT', self::path($id) . '/heartbeat', repeat: true);
        } catch (Exception\NotFound) {
            $this->register();
        }
    }

    private function refused(LingerException $refusal): void
    {
        if (in_array($refusal->reason, [Code::Invalid, Code::Unauthorized, Code::Forbidden], true)) {
            throw $refusal;
        }
        ($this->log)("`$this->app` could not call the server: {$refusal->getMessage()}; again in $this->pause s");
        $this->nextAt = Clock::now() + $this->pause;
        $this->pause = min($this->pause * 2, self::PAUSE_SECONDS_MAX);
    }

    private static function path(string $id): string
    {
        return '/v1/workers/' . rawurlencode($id);
    }
}
