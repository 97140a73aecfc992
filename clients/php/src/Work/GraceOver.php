<?php

declare(strict_types=1);

namespace Linger\Work;

/**
 * Thrown into a handler that still works when the grace time of a stop is over.
 *
 * An Error, so that a handler which catches exceptions does not take it for one of its own.
 *
 * @internal
 */
final class GraceOver extends \Error
{
}
