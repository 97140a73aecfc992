<?php

declare(strict_types=1);

namespace Linger\Laravel\Tests;

use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\InteractsWithQueue;

/** A job as people write them for Laravel. */
final class Mail implements ShouldQueue
{
    use InteractsWithQueue;

    public int $tries = 3;
    /** @var list<string> */
    public static array $sent = [];

    public function __construct(private readonly string $to, private readonly string $how = 'send')
    {
    }

    public function handle(): void
    {
        self::$sent[] = "$this->to {$this->attempts()}";
        match ($this->how) {
            'send' => null,
            'throw' => throw new \RuntimeException('no such address'),
            'release' => $this->attempts() === 1 ? $this->release(0) : null,
        };
    }
}
