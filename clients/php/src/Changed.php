<?php

declare(strict_types=1);

namespace Linger;

/** What a change came to. */
final class Changed
{
    /**
     * @param bool     $changed whether anything changed
     * @param Job|null $job     where the job stands now; null if it is gone. What the caller gave is not in it
     *
     * @internal
     */
    public function __construct(public readonly bool $changed, public readonly ?Job $job)
    {
    }
}
