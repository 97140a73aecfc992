<?php

declare(strict_types=1);

namespace Linger\Exception;

use Linger\LingerException;

/** The job has changed since the version that was named. */
class VersionMismatch extends LingerException
{
}
