<?php

declare(strict_types=1);

namespace Linger\Http;

/** An answer as a transport gives it back. */
final class Response
{
    /** @param array<string, string> $headers by their names in lower case */
    public function __construct(
        public readonly int $status,
        public readonly array $headers,
        public readonly string $body,
    ) {
    }
}
