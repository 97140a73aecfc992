<?php

declare(strict_types=1);

namespace Linger\Exception;

use Linger\LingerException;

/** Too many requests: nothing was done, try again later. */
class RateLimited extends LingerException
{
}
