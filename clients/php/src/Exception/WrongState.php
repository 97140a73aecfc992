<?php

declare(strict_types=1);

namespace Linger\Exception;

use Linger\LingerException;

/** The job is in a state that does not allow this. */
class WrongState extends LingerException
{
}
