<?php

declare(strict_types=1);

namespace Linger\Http;

/** A request as a transport sends it. */
final class Request
{
    /**
     * @param array<string, string> $headers
     * @param float                 $connectTimeout seconds until a connection must stand
     * @param float                 $timeout        seconds from then on until the whole answer must be there
     */
    public function __construct(
        public readonly string $method,
        public readonly string $url,
        public readonly array $headers,
        public readonly string $body,
        public readonly float $connectTimeout,
        public readonly float $timeout,
    ) {
    }
}
