<?php

declare(strict_types=1);

namespace Linger\Work;

use Linger\Http\Meanwhile;
use Linger\Job;

/**
 * Those who run a worker's handlers.
 *
 * @internal
 */
interface Hands extends Meanwhile
{
    /** How many jobs they can take now. */
    public function free(): int;

    /** Takes a job and sees to it that the server hears what became of it. */
    public function take(Job $job): void;

    /** Sleeps until something has happened, but not for longer than this. */
    public function sleep(float $seconds): void;

    /** Lets handlers end that work, until then; releases what is left. */
    public function drain(float $until): void;
}
