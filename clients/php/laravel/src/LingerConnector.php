<?php

declare(strict_types=1);

namespace Linger\Laravel;

use Illuminate\Contracts\Queue\Queue;
use Illuminate\Queue\Connectors\ConnectorInterface;
use Linger\Client;

/** Makes a queue from what `config/queue.php` says of a connection. */
final class LingerConnector implements ConnectorInterface
{
    /** @param array<string, mixed> $config */
    public function connect(array $config): Queue
    {
        return new LingerQueue(
            new Client($config['server'] ?? null, $config['key'] ?? null, ca: $config['ca'] ?? null),
            $config['queue'] ?? 'default',
            $config['retry_after'] ?? 90,
            $config['block_for'] ?? 0,
            $config['after_commit'] ?? false,
        );
    }
}
