<?php

declare(strict_types=1);

namespace Linger;

/** A body of bytes that need not be text. */
final class Bytes implements \Stringable
{
    public function __construct(public readonly string $bytes)
    {
    }

    public function __toString(): string
    {
        return $this->bytes;
    }
}
