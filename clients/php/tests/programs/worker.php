<?php

/**
 * A worker that does what the bodies of its jobs say, and writes down what happened: worker.php FILE SETTINGS TOPIC…
 */

declare(strict_types=1);

use Linger\Again;
use Linger\Client;
use Linger\Context;
use Linger\Job;
use Linger\NewJob;
use Linger\RetryIn;
use Linger\Worker;

require __DIR__ . '/../bootstrap.php';

[, $file, $settings] = $argv;
$client = new Client();
if (getenv('BY_PSR18')) {
    $factory = new GuzzleHttp\Psr7\HttpFactory();
    $transport = new Linger\Http\Psr18Transport(new GuzzleHttp\Client(), $factory, $factory);
    $client = new Client(transport: $transport);
}

$write = static function (string $what, Job $job) use ($file): void {
    file_put_contents($file, "$what $job->id $job->attempt " . getmypid() . "\n", FILE_APPEND | LOCK_EX);
};
$waitForGate = static function (Job $job, Context $context) use ($file, $write): void {
    while (!file_exists("$file.gate-$job->id")) {
        usleep(20_000);
        if ($context->isLost()) {
            $write('lost', $job);
            return;
        }
    }
};
$handler = static function (Job $job, Context $context) use ($client, $write, $waitForGate): void {
    $write('start', $job);
    match ($job->body) {
        'fail' => throw new RuntimeException('no luck'),
        'bytes' => throw new RuntimeException("no \xff luck"),
        'nonsense' => throw new RetryIn('soon', 'no luck'),
        'retry_in' => $job->attempt === 1 ? throw new RetryIn('1ms', 'later') : null,
        'retry_in_an_hour' => throw new RetryIn(new DateInterval('PT1H'), 'much later'),
        'again' => $job->attempt === 1 ? throw new Again(0.001) : null,
        'gate' => $waitForGate($job, $context),
        'exit' => exit(3),
        'memory' => ini_set('memory_limit', '64M') . str_repeat('x', 1 << 28),
        'background' => exec('sleep 20 >/dev/null 2>&1 & echo'),
        'hang' => register_shutdown_function(static fn () => sleep(20)),
        'kill' => posix_kill((int) getmypid(), SIGKILL),
        'add' => $client->add(new NewJob("$job->topic.next", $job->id, id: $job->id)),
        default => null,
    };
    $write('end', $job);
};

$settings = json_decode($settings, true);
(new Worker($client, array_fill_keys(array_slice($argv, 3), $handler), ...$settings))->run();
