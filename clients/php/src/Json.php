<?php

declare(strict_types=1);

namespace Linger;

/** A body that is JSON already: it is sent as it is. */
final class Json
{
    public function __construct(public readonly string $text)
    {
    }
}
