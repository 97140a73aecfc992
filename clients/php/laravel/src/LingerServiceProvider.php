<?php

declare(strict_types=1);

namespace Linger\Laravel;

use Illuminate\Queue\QueueManager;
use Illuminate\Support\ServiceProvider;

/** Makes the queue driver `linger` known. Laravel finds it by itself. */
final class LingerServiceProvider extends ServiceProvider
{
    public function boot(): void
    {
        $this->callAfterResolving('queue', static function (QueueManager $queues): void {
            $queues->addConnector('linger', static fn () => new LingerConnector());
        });
    }
}
