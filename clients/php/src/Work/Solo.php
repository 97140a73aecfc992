<?php

declare(strict_types=1);

namespace Linger\Work;

use Linger\Client;
use Linger\Context;
use Linger\Job;

/**
 * Runs one handler at a time in this process; an alarm interrupts it when its lease is to be touched.
 *
 * @internal
 */
final class Solo implements Hands
{
    /** Alarms know whole seconds only, so what is due before the next one is done by this one. */
    private const ALARM_SECONDS = 1;

    private readonly Client $client;
    /** Whether an alarm finds a handler to throw into. */
    private bool $isWorking = false;

    /** @param array<string, callable> $handlers */
    public function __construct(
        Client $client,
        private readonly array $handlers,
        private readonly mixed $ttr,
        private readonly Stop $stop,
        private readonly \Closure $log,
    ) {
        // The alarm may come while the handler is in the middle of a call by the same client.
        $this->client = clone $client;
    }

    public function free(): int
    {
        return 1;
    }

    public function streams(): array
    {
        return [];
    }

    public function patience(): float
    {
        return Stop::LOOK_SECONDS;
    }

    public function proceed(): bool
    {
        return !$this->stop->isAsked();
    }

    public function take(Job $job): void
    {
        $hold = new Hold($this->client, $job, $this->ttr, $this->log);
        $context = new Context($hold->isLost(...));
        try {
            $this->wind($hold);
            $outcome = Outcome::of($this->handlers[$job->topic], $job, $context);
            $this->isWorking = false;
        } catch (GraceOver) {
            $outcome = null;
        }
        $this->unwind();
        if ($outcome === null) {
            $hold->leave();
            return;
        }
        $hold->end($outcome);
        $hold->proceed();
        while (!$hold->isOver() && !$this->stop->isOver()) {
            $this->sleep($hold->secondsToNext());
            $hold->proceed();
        }
    }

    public function sleep(float $seconds): void
    {
        usleep((int) (min($seconds, Stop::LOOK_SECONDS) * 1e6));
    }

    public function drain(float $until): void
    {
        // The one handler has ended, or there would be nobody here to ask.
    }

    private function wind(Hold $hold): void
    {
        $this->isWorking = true;
        if (!function_exists('pcntl_alarm')) {
            return;
        }
        pcntl_signal(SIGALRM, function () use ($hold): void {
            if ($this->isWorking && $this->stop->isOver()) {
                $this->isWorking = false;
                throw new GraceOver('the grace time of the stop is over');
            }
            $hold->proceed(self::ALARM_SECONDS);
            $this->setAlarm($hold);
        });
        $this->stop->onAsked(fn () => $this->setAlarm($hold));
        $this->setAlarm($hold);
    }

    private function unwind(): void
    {
        if (function_exists('pcntl_alarm')) {
            pcntl_alarm(0);
            $this->stop->onAsked(null);
        }
    }

    /** Rather early than late. */
    private function setAlarm(Hold $hold): void
    {
        $seconds = min($hold->secondsToNext(), $this->stop->secondsLeft());
        pcntl_alarm($seconds === INF ? 0 : max(self::ALARM_SECONDS, (int) floor($seconds)));
    }
}
