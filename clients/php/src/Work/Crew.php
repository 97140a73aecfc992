<?php

declare(strict_types=1);

namespace Linger\Work;

use Linger\Client;
use Linger\Job;

/**
 * Runs each handler in a child process of its own. This process pops, touches leases and tells outcomes.
 *
 * @internal
 */
final class Crew implements Hands
{
    private const LOOK_SECONDS = 0.01;

    /** @var array<int, Child> whose jobs are in hand */
    private array $children = [];
    /** @var array<int, Child> whose jobs are not, but whose processes may still be there */
    private array $leaving = [];

    /** @param array<string, callable> $handlers */
    public function __construct(
        private readonly Client $client,
        private readonly array $handlers,
        private readonly int $size,
        private readonly mixed $ttr,
        private readonly Stop $stop,
        private readonly \Closure $log,
    ) {
    }

    public function free(): int
    {
        return $this->size - count($this->children);
    }

    public function take(Job $job): void
    {
        // A child must not end, nor use, what its parent talks through.
        $this->client->disconnect();
        $hold = new Hold($this->client, $job, $this->ttr, $this->log);
        $others = [...$this->children, ...$this->leaving];
        $siblings = array_map(static fn (Child $child) => $child->stream, $others);
        $child = Child::start($hold, $this->handlers[$job->topic], $siblings);
        if ($child === null) {
            ($this->log)('there is no process to be had for a handler; its job is released');
            $hold->leave();
            return;
        }
        $this->children[] = $child;
    }

    public function streams(): array
    {
        $open = array_filter($this->children, static fn (Child $child) => $child->isOpen());
        return array_values(array_map(static fn (Child $child) => $child->stream, $open));
    }

    public function patience(): float
    {
        $seconds = array_map(static fn (Child $child) => $child->secondsToNext(), $this->children);
        return min([Stop::LOOK_SECONDS, ...array_values($seconds)]);
    }

    public function proceed(): bool
    {
        foreach ($this->children as $number => $child) {
            $child->proceed();
            if ($child->hold->isOver()) {
                unset($this->children[$number]);
                $this->leaving[] = $child;
            }
        }
        $this->leaving = array_filter($this->leaving, static fn (Child $child) => !$child->isGone());
        return !$this->stop->isAsked();
    }

    public function sleep(float $seconds): void
    {
        $readable = $this->streams();
        $none = null;
        $seconds = min($seconds, $this->patience());
        if ($readable === []) {
            usleep((int) ($seconds * 1e6));
        } else {
            @stream_select($readable, $none, $none, 0, (int) ($seconds * 1e6));
        }
        $this->proceed();
    }

    public function drain(float $until): void
    {
        while ($this->children !== [] && ($left = $until - Clock::now()) > 0) {
            $this->sleep($left);
        }
        while ($this->leaving !== [] && ($left = $until - Clock::now()) > 0) {
            $this->sleep(min($left, self::LOOK_SECONDS));
        }
        foreach ([...$this->children, ...$this->leaving] as $child) {
            $child->kill();
            $child->hold->leave();
        }
        $this->children = $this->leaving = [];
    }
}
