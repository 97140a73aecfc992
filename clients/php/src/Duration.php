<?php

declare(strict_types=1);

namespace Linger;

/**
 * Lengths of time: a number of seconds, a DateInterval, or text as the server takes it (`30m`).
 *
 * @internal
 */
final class Duration
{
    private const UNITS = ['ms' => 0.001, 's' => 1, 'm' => 60, 'h' => 3600, 'd' => 86400];

    /** What is sent for it. Text is left alone: whether it is right is for the server to say. */
    public static function wire(\DateInterval|int|float|string $duration): int|float|string
    {
        if (!$duration instanceof \DateInterval) {
            return $duration;
        }
        $now = new \DateTimeImmutable('now', new \DateTimeZone('UTC'));
        return round((float) $now->add($duration)->format('U.u') - (float) $now->format('U.u'), 3);
    }

    /** How many seconds it is; 0 for text that is no length of time. */
    public static function seconds(\DateInterval|int|float|string|null $duration): float
    {
        $wire = $duration === null ? 0 : self::wire($duration);
        if (is_numeric($wire)) {
            return (float) $wire;
        }
        if (!preg_match('/^(\s*\d+(\.\d+)?\s*(ms|s|m|h|d))+\s*$/', $wire)) {
            return 0.0;
        }
        preg_match_all('/(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)/', $wire, $parts, PREG_SET_ORDER);
        return (float) array_sum(array_map(static fn ($part) => (float) $part[1] * self::UNITS[$part[2]], $parts));
    }
}
