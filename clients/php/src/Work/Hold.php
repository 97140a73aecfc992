<?php

declare(strict_types=1);

namespace Linger\Work;

use Linger\Client;
use Linger\Code;
use Linger\Job;
use Linger\LingerException;

/**
 * A job in hand: keeps its lease while its handler works, and tells what became of it.
 *
 * @internal
 */
final class Hold
{
    private const PAUSE_SECONDS_MIN = 0.1;
    private const PAUSE_SECONDS_MAX = 5.0;

    private bool $lost = false;
    private ?Outcome $outcome = null;
    private float $until;
    /** When something is to be done next: a touch, or telling the outcome. */
    private float $nextAt;
    private float $pause = self::PAUSE_SECONDS_MIN;

    /** @param \DateInterval|int|float|string|null $ttr */
    public function __construct(
        private readonly Client $client,
        public readonly Job $job,
        private readonly mixed $ttr,
        private readonly \Closure $log,
    ) {
        $this->renew($job->leaseLeft);
    }

    public function isLost(): bool
    {
        return $this->lost;
    }

    /** Whether there is nothing more to tell the server. */
    public function isOver(): bool
    {
        return $this->outcome !== null && ($this->lost || $this->nextAt === INF);
    }

    public function secondsToNext(): float
    {
        return max(0.0, $this->nextAt - Clock::now());
    }

    /** Takes what became of it; `proceed` tells the server. */
    public function end(Outcome $outcome): void
    {
        $this->outcome = $outcome;
        $this->nextAt = Clock::now();
    }

    /** Touches the lease or tells the outcome, if it is time to within so many seconds. */
    public function proceed(float $within = 0.0): void
    {
        if ($this->lost || $this->nextAt > Clock::now() + $within) {
            return;
        }
        try {
            $this->outcome === null ? $this->touch() : $this->tell($this->outcome);
            $this->pause = self::PAUSE_SECONDS_MIN;
        } catch (LingerException $refusal) {
            $this->refused($refusal);
        }
    }

    /** The last that is done for the job: its outcome is told if there is one, or else it is given back. */
    public function leave(): void
    {
        if ($this->lost || $this->isOver()) {
            return;
        }
        try {
            $this->outcome === null ? $this->client->release($this->job) : $this->tell($this->outcome);
        } catch (LingerException $refusal) {
            $what = $this->outcome === null ? 'was not released' : 'has an outcome that was not told';
            ($this->log)("{$this->name()} $what: {$refusal->getMessage()}");
        }
    }

    private function touch(): void
    {
        $changed = $this->client->touch($this->job, ttr: $this->ttr);
        $this->renew($changed->job->leaseLeft ?? 0.0);
    }

    private function tell(Outcome $outcome): void
    {
        $outcome->tell($this->client, $this->job);
        $this->nextAt = INF;
    }

    private function renew(float $left): void
    {
        $this->until = Clock::now() + $left;
        $this->nextAt = Clock::now() + max(self::PAUSE_SECONDS_MIN, $left / 2);
    }

    private function refused(LingerException $refusal): void
    {
        if (in_array($refusal->reason, [Code::LeaseLost, Code::NotFound, Code::WrongState], true)) {
            $this->lose("{$this->name()} is no longer ours: {$refusal->getMessage()}");
        } elseif (Clock::now() >= $this->until) {
            $what = $this->outcome === null ? 'the lease of' : 'what became of';
            $was = $this->outcome === null ? 'touched' : 'told';
            $this->lose("$what {$this->name()} was not $was in time: {$refusal->getMessage()}");
        } elseif ($this->outcome !== null && $refusal->reason === Code::Invalid) {
            // Such as a `retry_in` that is no length of time: it failed all the same.
            ($this->log)("{$this->name()}: {$refusal->getMessage()}");
            $this->end(Outcome::failed($refusal->getMessage()));
        } else {
            $this->nextAt = min(Clock::now() + $this->pause, $this->until);
            $this->pause = min($this->pause * 2, self::PAUSE_SECONDS_MAX);
        }
    }

    private function lose(string $why): void
    {
        $this->lost = true;
        $this->nextAt = INF;
        ($this->log)($why);
    }

    private function name(): string
    {
        return "job `{$this->job->id}` of `{$this->job->topic}`";
    }
}
