<?php

declare(strict_types=1);

namespace Linger\Laravel;

use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job as JobContract;
use Illuminate\Queue\Jobs\Job;
use Linger\Client;
use Linger\Exception\LeaseLost;
use Linger\Exception\NotFound;
use Linger\Job as Popped;

/** A job in the hands of a worker of Laravel. */
final class LingerJob extends Job implements JobContract
{
    public function __construct(
        Container $container,
        private readonly Client $client,
        private readonly Popped $popped,
        string $connectionName,
        string $queue,
    ) {
        $this->container = $container;
        $this->connectionName = $connectionName;
        $this->queue = $queue;
    }

    /** Given back by Laravel it was an attempt all the same, hence `again`: a release of Linger's does not count. */
    public function release($delay = 0): void
    {
        parent::release($delay);
        $this->tell(fn () => $this->client->fail($this->popped, retryIn: $this->secondsUntil($delay), again: true));
    }

    /** It is done, or Laravel has put it among the failed ones. */
    public function delete(): void
    {
        parent::delete();
        $this->tell(fn () => $this->client->finish($this->popped));
    }

    public function attempts(): int
    {
        return $this->popped->attempt;
    }

    public function getJobId(): string
    {
        return $this->popped->id;
    }

    public function getRawBody(): string
    {
        $body = $this->popped->body;
        return is_string($body) ? $body : json_encode($body, JSON_THROW_ON_ERROR);
    }

    private function tell(callable $call): void
    {
        try {
            $call();
        } catch (LeaseLost | NotFound) {
            // It took longer than `retry_after`, and somebody else has it: it is theirs to tell.
        }
    }
}
