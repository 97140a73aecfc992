<?php

declare(strict_types=1);

namespace Linger\Work;

/**
 * Whether a worker was asked to stop, and how much of the grace time is left.
 *
 * @internal
 */
final class Stop
{
    /** How often it is looked at by those whom no signal wakes. */
    public const LOOK_SECONDS = 0.5;

    private ?float $over = null;
    private ?\Closure $onAsked = null;

    public function __construct(private readonly float $grace)
    {
    }

    public function ask(): void
    {
        $this->over ??= Clock::now() + $this->grace;
        if ($this->onAsked !== null) {
            ($this->onAsked)();
        }
    }

    /** What is called when it is asked for. */
    public function onAsked(?\Closure $call): void
    {
        $this->onAsked = $call;
    }

    public function isAsked(): bool
    {
        return $this->over !== null;
    }

    public function isOver(): bool
    {
        return $this->over !== null && Clock::now() >= $this->over;
    }

    /** Of the grace time; endless before it was asked for. */
    public function secondsLeft(): float
    {
        return $this->over === null ? INF : max(0.0, $this->over - Clock::now());
    }
}
