<?php

/**
 * A worker that writes down which jobs it has done: worker.php TOPIC FILE [CONCURRENCY].
 *
 * Killed at any moment and started again it loses none: what it had in hand comes back when its ttr is over. A job may
 * so be done twice, and its id then stands in the file twice.
 */

declare(strict_types=1);

use Linger\Client;
use Linger\Job;
use Linger\Worker;

require __DIR__ . '/../vendor/autoload.php';

[, $topic, $file] = $argv + [1 => 'example', 2 => 'done.txt'];

$worker = new Worker(
    new Client(),
    [$topic => static fn (Job $job) => file_put_contents($file, "$job->id\n", FILE_APPEND | LOCK_EX)],
    concurrency: (int) ($argv[3] ?? 4),
);
$worker->run();
