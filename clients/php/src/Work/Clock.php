<?php

declare(strict_types=1);

namespace Linger\Work;

/** @internal */
final class Clock
{
    /** Seconds on a clock that nobody sets. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
