<?php

declare(strict_types=1);

namespace Linger;

use Linger\Http\HungUp;
use Linger\Work\Clock;
use Linger\Work\Crew;
use Linger\Work\Hands;
use Linger\Work\Solo;
use Linger\Work\Stop;

/**
 * Works on jobs, on the command line: pops them, calls their handlers, touches their leases meanwhile and tells the
 * server what became of them.
 */
final class Worker
{
    private const WAIT_SECONDS = 30;
    /** For transports that cannot hang up: how long a stop, or a touch, may have to wait for a pop. */
    private const SHORT_WAIT_SECONDS = 1;
    private const PAUSE_SECONDS_MIN = 0.1;
    private const PAUSE_SECONDS_MAX = 5.0;

    private readonly Stop $stop;
    /** Before a server that is away is asked again. */
    private float $pause = self::PAUSE_SECONDS_MIN;
    private readonly \Closure $log;

    /**
     * @param array<string, callable(Job, Context): mixed> $handlers    by topic. One that returns has finished its
     *                                                                  job; one that throws has failed it, see
     *                                                                  `Again` and `RetryIn`
     * @param int                                          $concurrency how many handlers work at a time; each has a
     *                                                                  process of its own if it is more than 1
     * @param \DateInterval|int|float|string|null          $ttr         how long leases last, in place of the jobs' own
     * @param float                                        $grace       seconds that handlers have to end after a stop
     * @param bool                                         $signals     whether SIGTERM and SIGINT stop it
     * @param callable(string): void|null                  $log         told what goes wrong; error_log() unless given
     */
    public function __construct(
        private readonly Client $client,
        private readonly array $handlers,
        private readonly int $concurrency = 1,
        private readonly \DateInterval|int|float|string|null $ttr = null,
        float $grace = 30.0,
        private readonly bool $signals = true,
        ?callable $log = null,
    ) {
        $this->stop = new Stop($grace);
        $this->log = ($log ?? static fn (string $text) => error_log("linger: $text"))(...);
    }

    /**
     * Works until it is stopped. A worker runs once.
     *
     * @throws LingerException if the server refuses it for good: a wrong key, a wrong topic
     */
    public function run(): void
    {
        $restore = $this->listen();
        $hands = $this->hands();
        try {
            while (!$this->stop->isAsked()) {
                $this->popOnce($hands);
            }
        } finally {
            $this->stop->ask();
            $hands->drain(Clock::now() + $this->stop->secondsLeft());
            $restore();
        }
    }

    /** Asks it to stop: from a signal handler, or from one of its own handlers. */
    public function stop(): void
    {
        $this->stop->ask();
    }

    private function popOnce(Hands $hands): void
    {
        $free = $hands->free();
        if ($free === 0) {
            $hands->sleep(INF);
            return;
        }
        try {
            $wait = $this->client->canHangUp() ? self::WAIT_SECONDS : self::SHORT_WAIT_SECONDS;
            $topics = array_map('strval', array_keys($this->handlers));
            $jobs = $this->client->pop($topics, $free, $wait, $this->ttr, $hands);
            $this->pause = self::PAUSE_SECONDS_MIN;
        } catch (HungUp) {
            return;
        } catch (LingerException $refusal) {
            $this->refused($refusal, $hands);
            return;
        }
        $hands->proceed();
        foreach ($jobs as $job) {
            $this->handOut($job, $hands);
        }
    }

    private function handOut(Job $job, Hands $hands): void
    {
        if (!$this->stop->isAsked()) {
            $hands->take($job);
            return;
        }
        try {
            $this->client->release($job);
        } catch (LingerException $refusal) {
            ($this->log)("job `$job->id` of `$job->topic` was not released: {$refusal->getMessage()}");
        }
    }

    private function refused(LingerException $refusal, Hands $hands): void
    {
        if (in_array($refusal->reason, [Code::Invalid, Code::Unauthorized, Code::Forbidden], true)) {
            throw $refusal;
        }
        ($this->log)("no jobs: {$refusal->getMessage()}; asking again in $this->pause s");
        $until = Clock::now() + $this->pause;
        while (!$this->stop->isAsked() && ($left = $until - Clock::now()) > 0) {
            $hands->sleep($left);
        }
        $this->pause = min($this->pause * 2, self::PAUSE_SECONDS_MAX);
    }

    private function hands(): Hands
    {
        if ($this->concurrency > 1 && function_exists('pcntl_fork')) {
            return new Crew(
                $this->client,
                $this->handlers,
                $this->concurrency,
                $this->ttr,
                $this->stop,
                $this->log,
            );
        }
        if ($this->concurrency > 1) {
            ($this->log)('without ext-pcntl one handler works at a time, and leases are not touched');
        }
        return new Solo($this->client, $this->handlers, $this->ttr, $this->stop, $this->log);
    }

    /** @return \Closure(): void what puts things back as they were */
    private function listen(): \Closure
    {
        if (!function_exists('pcntl_signal')) {
            return static fn () => null;
        }
        $async = pcntl_async_signals(true);
        $before = [];
        foreach ($this->signals ? [SIGTERM, SIGINT] : [] as $signal) {
            $before[$signal] = pcntl_signal_get_handler($signal);
            pcntl_signal($signal, fn () => $this->stop->ask());
        }
        return static function () use ($async, $before): void {
            array_walk($before, static fn ($handler, int $signal) => pcntl_signal($signal, $handler));
            pcntl_async_signals($async);
        };
    }
}
