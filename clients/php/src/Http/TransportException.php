<?php

declare(strict_types=1);

namespace Linger\Http;

/** There was no answer. */
final class TransportException extends \RuntimeException
{
    /** @param bool $sent whether the server may have got the request */
    public function __construct(string $message, public readonly bool $sent, ?\Throwable $previous = null)
    {
        parent::__construct($message, 0, $previous);
    }
}
