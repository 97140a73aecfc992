<?php

declare(strict_types=1);

namespace Linger\Http;

/** The caller hung up before the answer came. */
final class HungUp extends \RuntimeException
{
}
