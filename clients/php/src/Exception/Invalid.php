<?php

declare(strict_types=1);

namespace Linger\Exception;

use Linger\LingerException;

/** The request itself is wrong; the message says what would have been right. */
class Invalid extends LingerException
{
}
