<?php

declare(strict_types=1);

namespace Linger\Laravel\Tests;

use Illuminate\Bus\Dispatcher as Bus;
use Illuminate\Container\Container;
use Illuminate\Contracts\Bus\Dispatcher as BusContract;
use Illuminate\Contracts\Container\Container as ContainerContract;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Events\Dispatcher as EventsContract;
use Illuminate\Events\Dispatcher;
use Illuminate\Queue\Capsule\Manager;
use Illuminate\Queue\Events\JobFailed;
use Illuminate\Queue\Worker;
use Illuminate\Queue\WorkerOptions;
use Linger\Laravel\LingerQueue;
use Linger\Laravel\LingerServiceProvider;
use Linger\Tests\ServerTestCase;

/** The driver with the real classes of Illuminate. */
final class LaravelTest extends ServerTestCase
{
    private Container $container;
    private Manager $manager;
    private string $topic;
    /** @var list<string> */
    private array $failed = [];
    /** @var list<string> what went wrong in handlers */
    private array $reported = [];

    protected function setUp(): void
    {
        parent::setUp();
        Mail::$sent = [];
        $this->topic = $this->newTopic();
        // With `bound` and `resolved`, which is all of an application that a provider asks for.
        $this->container = new Container();
        Container::setInstance($this->container);
        $this->manager = new Manager($this->container);
        $this->container->instance('queue', $this->manager->getQueueManager());
        (new LingerServiceProvider($this->container))->boot();
        $this->manager->addConnection(['driver' => 'linger', 'server' => self::$server->url, 'queue' => $this->topic,
            'retry_after' => 60, 'block_for' => 5]);
        $events = new Dispatcher($this->container);
        $events->listen(JobFailed::class, fn (JobFailed $event) => $this->failed[] = $event->exception->getMessage());
        $this->container->instance(EventsContract::class, $events);
        $this->container->instance('events', $events);
        $this->container->instance(BusContract::class, new Bus($this->container));
        $this->container->instance(ContainerContract::class, $this->container);
    }

    public function testAJobIsPushedAndWorkedOn(): void
    {
        $id = $this->queue()->push(new Mail('ada'));
        $this->assertSame('ready', $this->client->get($this->topic, $id)->state);
        $this->workOnce();
        $this->assertSame([], $this->reported);
        $this->assertSame(['ada 1'], Mail::$sent);
        $this->assertSame(0, $this->queue()->size());
    }

    public function testALaterJobWaits(): void
    {
        $id = $this->queue()->later(3600, new Mail('ada'));
        $this->queue()->later(new \DateInterval('PT2H'), new Mail('bob'));
        $this->queue()->laterOn("$this->topic.other", 3600, new Mail('eve'));
        $due = $this->client->get($this->topic, $id)->due?->getTimestamp();
        $this->assertEqualsWithDelta(time() + 3600, $due, 30);
        $queue = $this->queue();
        $this->assertSame([2, 2, 0], [$queue->size(), $queue->delayedSize(), $queue->pendingSize()]);
        $this->assertSame(1, $this->queue()->size("$this->topic.other"));
        $this->client->run($this->topic, $id);
        $this->workOnce();
        $this->assertSame(['ada 1'], Mail::$sent);
    }

    public function testAReleasedJobComesBackAsTheNextAttempt(): void
    {
        $this->queue()->push(new Mail('ada', 'release'));
        $this->workOnce();
        $this->workOnce();
        $this->assertSame(['ada 1', 'ada 2'], Mail::$sent);
        $this->assertSame(0, $this->queue()->size());
    }

    public function testAJobThatThrowsIsTriedAsOftenAsItSaysAndThenFails(): void
    {
        $this->queue()->push(new Mail('ada', 'throw'));
        array_map(fn () => $this->workOnce(), range(1, 3));
        $this->assertSame(['ada 1', 'ada 2', 'ada 3'], Mail::$sent);
        $this->assertSame(['no such address'], $this->failed);
        $this->assertSame(0, $this->queue()->size());
    }

    public function testManyArePushedAndCleared(): void
    {
        $this->queue()->bulk([new Mail('ada'), new Mail('bob')]);
        $this->assertSame(2, $this->queue()->clear($this->topic));
        $this->assertSame([0, 0], [$this->queue()->size(), $this->queue()->clear('never.used')]);
    }

    public function testThePayloadComesBackByteForByte(): void
    {
        $payload = '{"job": "x", "data": {}, "float": 1.10}';
        $id = $this->queue()->pushRaw($payload);
        $job = $this->queue()->pop();
        $this->assertSame([$payload, $id, 1], [$job?->getRawBody(), $job?->getJobId(), $job?->attempts()]);
        $this->assertSame(1, $this->queue()->reservedSize());
    }

    public function testAnEmptyQueueHasNothing(): void
    {
        $this->assertNull($this->queue()->pop("$this->topic.other", 1));
    }

    public function testAJobThatSomebodyElseHasByNowIsLeftAlone(): void
    {
        $id = $this->queue()->push(new Mail('ada'));
        $job = $this->queue()->pop();
        $this->client->release($this->topic, $id);
        $job?->delete();
        $this->assertSame('ready', $this->client->get($this->topic, $id)->state);
        $this->client->delete($this->topic, $id);
        $job?->release(5);
        $this->assertSame(0, $this->queue()->size());
    }

    private function queue(): LingerQueue
    {
        $queue = $this->manager->getConnection();
        $this->assertInstanceOf(LingerQueue::class, $queue);
        return $queue;
    }

    private function workOnce(): void
    {
        $exceptions = $this->createStub(ExceptionHandler::class);
        $exceptions->method('report')->willReturnCallback(fn (\Throwable $e) => $this->reported[] = $e->getMessage());
        $events = $this->container->make('events');
        $worker = new Worker($this->manager->getQueueManager(), $events, $exceptions, static fn () => false);
        $worker->runNextJob('default', $this->topic, new WorkerOptions());
    }
}
