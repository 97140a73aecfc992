<?php

declare(strict_types=1);

namespace Linger\Exception;

use Linger\LingerException;

/** The server cannot work now, or (without a status) was not reached or did not answer. */
class Unavailable extends LingerException
{
}
