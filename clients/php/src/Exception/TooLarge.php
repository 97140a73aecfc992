<?php

declare(strict_types=1);

namespace Linger\Exception;

use Linger\LingerException;

/** Something is over its size limit, which the message names. */
class TooLarge extends LingerException
{
}
