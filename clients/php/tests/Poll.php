<?php

declare(strict_types=1);

namespace Linger\Tests;

final class Poll
{
    /**
     * Asks until the answer is truthy, and gives that back.
     *
     * @template T
     * @param  callable(): T $ask
     * @return T
     */
    public static function until(callable $ask, string $what, float $seconds = 30.0): mixed
    {
        $until = microtime(true) + $seconds;
        while (!($answer = $ask())) {
            if (microtime(true) > $until) {
                throw new \RuntimeException("waited $seconds s in vain until $what");
            }
            usleep(20_000);
        }
        return $answer;
    }
}
