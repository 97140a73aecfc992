<?php

declare(strict_types=1);

namespace Linger;

/** A delivery that is not to be trusted; the message says why. */
final class WebhookException extends \RuntimeException
{
}
