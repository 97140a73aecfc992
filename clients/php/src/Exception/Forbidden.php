<?php

declare(strict_types=1);

namespace Linger\Exception;

use Linger\LingerException;

/** The API key is not for this call, or not for this topic. */
class Forbidden extends LingerException
{
}
