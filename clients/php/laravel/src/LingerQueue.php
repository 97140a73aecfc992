<?php

declare(strict_types=1);

namespace Linger\Laravel;

use Illuminate\Contracts\Queue\ClearableQueue;
use Illuminate\Contracts\Queue\Queue as QueueContract;
use Illuminate\Queue\Queue;
use Linger\Client;
use Linger\Exception\NotFound;
use Linger\NewJob;

/** A queue of Laravel is a topic of Linger. */
final class LingerQueue extends Queue implements QueueContract, ClearableQueue
{
    /**
     * @param string $default    the queue that is meant unless one is named
     * @param int    $retryAfter seconds after which a job whose worker fell silent is handed out again
     * @param int    $blockFor   seconds that a pop waits for a job
     */
    public function __construct(
        private readonly Client $client,
        private readonly string $default,
        private readonly int $retryAfter,
        private readonly int $blockFor,
        bool $dispatchAfterCommit,
    ) {
        $this->dispatchAfterCommit = $dispatchAfterCommit;
    }

    /** All jobs that wait or are worked on. */
    public function size($queue = null): int
    {
        return $this->count($queue, 'ready', 'delayed', 'retry', 'reserved');
    }

    public function pendingSize($queue = null): int
    {
        return $this->count($queue, 'ready');
    }

    public function delayedSize($queue = null): int
    {
        return $this->count($queue, 'delayed', 'retry');
    }

    public function reservedSize($queue = null): int
    {
        return $this->count($queue, 'reserved');
    }

    /** Is not known: the server tells the oldest over all topics only. */
    public function creationTimeOfOldestPendingJob($queue = null): ?int
    {
        return null;
    }

    public function push($job, $data = '', $queue = null)
    {
        return $this->later(null, $job, $data, $queue);
    }

    public function later($delay, $job, $data = '', $queue = null)
    {
        $payload = $this->createPayload($job, $this->topic($queue), $data);
        $add = fn ($payload, $queue, $delay = null) => $this->pushRaw($payload, $queue, ['delay' => $delay]);
        return $this->enqueueUsing($job, $payload, $queue, $delay, $add);
    }

    /** How often a job is tried is Laravel's to say, so the server sets no limit. */
    public function pushRaw($payload, $queue = null, array $options = [])
    {
        $delay = $options['delay'] ?? null;
        return $this->client->add(new NewJob(
            $this->topic($queue),
            $payload,
            delay: $delay === null ? null : $this->secondsUntil($delay),
            ttr: $this->retryAfter,
            retry: ['attempts' => 0],
        ))->id;
    }

    /** Waits at the first of several queues only, so that it holds up no other. */
    public function pop($queue = null, $index = 0)
    {
        $topic = $this->topic($queue);
        $jobs = $this->client->pop($topic, wait: $index === 0 ? $this->blockFor : 0);
        if ($jobs === []) {
            return null;
        }
        return new LingerJob($this->container, $this->client, $jobs[0], $this->connectionName, $topic);
    }

    /** Removes all jobs of a queue. */
    public function clear($queue): int
    {
        try {
            return $this->client->empty($this->topic($queue));
        } catch (NotFound) {
            return 0;
        }
    }

    private function topic(?string $queue): string
    {
        return $queue ?: $this->default;
    }

    private function count(?string $queue, string ...$states): int
    {
        try {
            $counts = $this->client->topic($this->topic($queue))->counts;
        } catch (NotFound) {
            return 0;
        }
        return array_sum(array_intersect_key($counts, array_flip($states)));
    }
}
