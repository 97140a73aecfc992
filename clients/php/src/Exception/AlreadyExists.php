<?php

declare(strict_types=1);

namespace Linger\Exception;

use Linger\LingerException;

/** The topic has a job of this id. */
class AlreadyExists extends LingerException
{
}
