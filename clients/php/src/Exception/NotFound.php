<?php

declare(strict_types=1);

namespace Linger\Exception;

use Linger\LingerException;

/** There is no such job, topic or path. */
class NotFound extends LingerException
{
}
