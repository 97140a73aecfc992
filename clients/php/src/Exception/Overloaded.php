<?php

declare(strict_types=1);

namespace Linger\Exception;

use Linger\LingerException;

/** More is in work than may be: nothing was done, try again later. */
class Overloaded extends LingerException
{
}
