<?php

declare(strict_types=1);

namespace Linger;

/** What a handler can ask about the attempt it makes. */
final class Context
{
    /**
     * @param \Closure(): bool $isLost
     *
     * @internal
     */
    public function __construct(private readonly \Closure $isLost)
    {
    }

    /**
     * Whether the lease was lost: somebody else may have the job, and nobody listens to what becomes of it here.
     *
     * A handler that works for long asks now and then, and ends without doing more.
     */
    public function isLost(): bool
    {
        return ($this->isLost)();
    }
}
