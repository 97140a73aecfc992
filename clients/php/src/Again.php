<?php

declare(strict_types=1);

namespace Linger;

/** Thrown by a handler: not yet. The job is tried again, and this is told apart from a failure. */
class Again extends \Exception
{
    /** @param \DateInterval|int|float|string|null $retryIn when, in place of what the job's `retry` says */
    public function __construct(public readonly \DateInterval|int|float|string|null $retryIn = null)
    {
        parent::__construct('again');
    }
}
