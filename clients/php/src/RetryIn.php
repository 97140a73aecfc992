<?php

declare(strict_types=1);

namespace Linger;

/** Thrown by a handler: it failed, and is to be tried again after this while. */
class RetryIn extends \Exception
{
    /** @param string $error why, for people */
    public function __construct(
        public readonly \DateInterval|int|float|string $retryIn,
        string $error = '',
        ?\Throwable $previous = null,
    ) {
        parent::__construct($error, 0, $previous);
    }
}
