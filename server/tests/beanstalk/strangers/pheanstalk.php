<?php
// A story told by Pheanstalk, which others wrote. Usage: pheanstalk.php HOST PORT
require 'Pheanstalk/autoload.php';

use Pheanstalk\Exception;
use Pheanstalk\Pheanstalk;

function same($wanted, $got)
{
    if ($wanted !== $got) {
        throw new \Exception('wanted ' . var_export($wanted, true) . ', got ' . var_export($got, true));
    }
}

function fails(string $class, callable $call)
{
    try {
        $call();
    } catch (\Exception $error) {
        same($class, get_class($error));
        return;
    }
    throw new \Exception("no $class");
}

$client = Pheanstalk::create($argv[1], (int) $argv[2]);
$client->useTube('pheans')->watchOnly('pheans');
same('pheans', $client->listTubeUsed(true));
same(['pheans'], $client->listTubesWatched(true));
$client->watch('other')->ignore('other');

$put = $client->put('hello', 7, 0, 30);
$later = $client->put('later', 1024, 100, 60);
$job = $client->reserve();
same([$put->getId(), 'hello'], [$job->getId(), $job->getData()]);
$client->touch($job);
$client->release($job, 3, 0);
$stats = $client->statsJob($job);
// Names come in quotes since beanstalkd 1.13, and this client leaves them as they are.
$tube = trim($stats->tube, '"');
same(['ready', '3', 'pheans', '1'], [$stats->state, $stats->pri, $tube, $stats->releases]);
same($job->getId(), $client->peekReady()->getId());
$client->bury($client->reserveWithTimeout(5), 9);
same($job->getId(), $client->peekBuried()->getId());
same(1, $client->kick(10));
same(null, $client->peekBuried());
$client->delete($client->reserve());
fails(Exception\JobNotFoundException::class, fn () => $client->peek($job));
fails(Exception\JobNotFoundException::class, fn () => $client->delete($job));
same(null, $client->reserveWithTimeout(0));

same($later->getId(), $client->peekDelayed()->getId());
$client->kickJob($later);
$client->pauseTube('pheans', 100);
same('100', $client->statsTube('pheans')->pause);
same(null, $client->reserveWithTimeout(0));
$client->resumeTube('pheans');
$job = $client->reserveWithTimeout(5);
same('later', $job->getData());
$client->delete($job);

$bytes = "\x00\xff\r\n\xfe";
$client->put($bytes);
$job = $client->reserve();
same($bytes, $job->getData());
$client->delete($job);
fails(Exception\JobTooBigException::class, fn () => $client->put(str_repeat('x', 65536)));
fails(Exception\ServerException::class, fn () => $client->statsTube('nobody'));
same('65535', $client->stats()['max-job-size']);
same(true, in_array('pheans', $client->listTubes()));
echo "all well\n";
