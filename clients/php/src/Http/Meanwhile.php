<?php

declare(strict_types=1);

namespace Linger\Http;

/** What a caller wants to do while it waits for an answer. */
interface Meanwhile
{
    /** @return list<resource> streams that end the sleep when there is something to read */
    public function streams(): array;

    /** How many seconds it may sleep at most. */
    public function patience(): float;

    /** Called after every sleep; false hangs up. */
    public function proceed(): bool;
}
