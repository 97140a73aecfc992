<?php

declare(strict_types=1);

namespace Linger\Exception;

use Linger\LingerException;

/** The lease ran out, or was never yours: leave the job alone. */
class LeaseLost extends LingerException
{
}
