<?php

declare(strict_types=1);

namespace Linger\Exception;

use Linger\LingerException;

/** The server asks for an API key, and has not got a right one. */
class Unauthorized extends LingerException
{
}
