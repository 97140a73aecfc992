<?php

declare(strict_types=1);

namespace Linger;

/**
 * Whether a call may be made once more when its answer was lost.
 *
 * @internal
 */
enum Repeat
{
    case Never;
    case Safe;
    /** Safe, and what is gone by then was removed by the first try. */
    case Deletes;
    /** Safe, and a lease that is over by then was ended by the first try. */
    case Settles;

    /** Whether this answer to the second try means that the first was carried out. */
    public function isDoneBy(Code $reason): bool
    {
        return match ($this) {
            self::Never, self::Safe => false,
            self::Deletes => $reason === Code::NotFound,
            self::Settles => $reason === Code::NotFound || $reason === Code::LeaseLost,
        };
    }
}
