<?php

declare(strict_types=1);

namespace Linger;

use Linger\Http\Response;

/** @internal */
final class Lease
{
    /**
     * How long a lease lasts from now, by the server's clock alone: ours may be off by more than a lease.
     *
     * The answer's date is cut to whole seconds, so a second may be missing: it is touched a little sooner.
     */
    public static function secondsLeft(string $until, Response $response): float
    {
        $date = strtotime($response->headers['date'] ?? '');
        $now = $date === false ? microtime(true) : $date + 1.0;
        return max(0.1, (float) (new \DateTimeImmutable($until))->format('U.u') - $now);
    }
}
