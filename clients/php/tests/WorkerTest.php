<?php

declare(strict_types=1);

namespace Linger\Tests;

use Linger\NewJob;

/** The worker, in a process of its own, as it is used. */
final class WorkerTest extends ServerTestCase
{
    private string $file;

    protected function setUp(): void
    {
        parent::setUp();
        $this->file = Temp::file('events');
        touch($this->file);
    }

    /** @return iterable<string, array{int}> */
    public function concurrencies(): iterable
    {
        yield 'in this process' => [1];
        yield 'in children' => [3];
    }

    /** @dataProvider concurrencies */
    public function testAHandlerThatReturnsFinishesItsJob(int $concurrency): void
    {
        $topics = [$this->newTopic(), $this->newTopic()];
        foreach ($topics as $topic) {
            $this->client->addMany([new NewJob($topic, 'done', id: '1'), new NewJob($topic, 'done', id: '2')]);
        }
        $worker = $this->start($topics, ['concurrency' => $concurrency]);
        foreach ($topics as $topic) {
            $this->waitUntilGone($topic, '1');
            $this->waitUntilGone($topic, '2');
        }
        $this->assertSame(0, $worker->end());
        $this->assertCount(4, $this->events('start'));
        $this->assertCount(4, $this->events('end'));
    }

    /** @dataProvider concurrencies */
    public function testAHandlerThatThrowsFailsItsJobWithTheTextOfTheError(int $concurrency): void
    {
        $topic = $this->newTopic();
        foreach (['fail', 'bytes', 'nonsense'] as $how) {
            $this->client->add(new NewJob($topic, $how, id: $how, retry: ['ladder' => ['1h']]));
        }
        $worker = $this->start([$topic], ['concurrency' => $concurrency]);
        $this->assertSame('no luck', $this->waitForState($topic, 'fail', 'retry')->lastError);
        $this->assertSame('no ? luck', $this->waitForState($topic, 'bytes', 'retry')->lastError);
        $nonsense = $this->waitForState($topic, 'nonsense', 'retry');
        $this->assertStringContainsString('retry_in', (string) $nonsense->lastError);
        $this->assertSame(1, $nonsense->attempt);
        $worker->end();
    }

    /** @dataProvider concurrencies */
    public function testAHandlerMaySayWhenToTryAgain(int $concurrency): void
    {
        $topic = $this->newTopic();
        $ladder = ['ladder' => ['5h', '5h']];
        $this->client->add(new NewJob($topic, 'retry_in', id: '1', retry: $ladder));
        $this->client->add(new NewJob($topic, 'again', id: '2', retry: $ladder));
        $this->client->add(new NewJob($topic, 'retry_in_an_hour', id: '3', retry: $ladder));
        $before = $this->client->call('GET', '/v1/stats')['totals'];
        $worker = $this->start([$topic], ['concurrency' => $concurrency]);
        $this->waitUntilGone($topic, '1');
        $this->waitUntilGone($topic, '2');
        $later = $this->waitForState($topic, '3', 'retry');
        $this->assertSame('much later', $later->lastError);
        $this->assertLessThan(new \DateTimeImmutable('+2 hours'), $later->due);
        $worker->end();
        $after = $this->client->call('GET', '/v1/stats')['totals'];
        $this->assertSame(2, $after['failed'] - $before['failed']);
        $this->assertSame(1, $after['again'] - $before['again']);
    }

    public function testAsManyHandlersWorkAtATimeAsAreWanted(): void
    {
        $topic = $this->newTopic();
        foreach (range(1, 5) as $id) {
            $this->client->add(new NewJob($topic, 'gate', id: (string) $id));
        }
        $worker = $this->start([$topic], ['concurrency' => 3]);
        Poll::until(fn () => count($this->events('start')) === 3, 'three work');
        $this->assertSame(3, $this->client->topic($topic)->counts['reserved'], 'and no more than they have are leased');
        $this->assertCount(3, array_unique(array_column($this->events('start'), 3)), 'each in a process of its own');
        foreach (range(1, 5) as $id) {
            $this->openGate((string) $id);
            $this->waitUntilGone($topic, (string) $id);
        }
        $this->assertSame(0, $worker->end());
        $this->assertCount(5, $this->events('end'));
    }

    /** @dataProvider concurrencies */
    public function testAHandlerThatTakesLongerThanItsTtrKeepsItsJob(int $concurrency): void
    {
        $topic = $this->newTopic();
        $this->client->add(new NewJob($topic, 'gate', id: '1', ttr: '2s'));
        $worker = $this->start([$topic], ['concurrency' => $concurrency]);
        Poll::until(fn () => $this->events('start'), 'it works');
        $first = $this->client->get($topic, '1')->reservedUntil;
        Poll::until(fn () => $this->client->get($topic, '1')->reservedUntil > $first?->modify('+2500 ms'), 'touched');
        $this->openGate('1');
        $this->waitUntilGone($topic, '1');
        $worker->end();
        $this->assertCount(1, $this->events('start'));
    }

    /** @dataProvider concurrencies */
    public function testALostLeaseIsToldToTheHandlerAndNothingToTheServer(int $concurrency): void
    {
        $topic = $this->newTopic();
        $this->client->add(new NewJob($topic, 'gate', id: '1', ttr: '2s'));
        $worker = $this->start([$topic], ['concurrency' => $concurrency]);
        Poll::until(fn () => $this->events('start'), 'it works');
        $this->client->fail($topic, '1', error: 'taken away', retryIn: '1h');
        Poll::until(fn () => $this->events('lost'), 'the handler knows');
        Poll::until(fn () => $this->events('end'), 'the handler ends');
        $this->assertSame(0, $worker->end());
        $job = $this->client->get($topic, '1');
        $this->assertSame(['retry', 'taken away'], [$job->state, $job->lastError]);
    }

    /** @dataProvider concurrencies */
    public function testAStopWaitsForHandlers(int $concurrency): void
    {
        $topic = $this->newTopic();
        $this->client->add(new NewJob($topic, 'gate', id: '1'));
        $worker = $this->start([$topic], ['concurrency' => $concurrency]);
        Poll::until(fn () => $this->events('start'), 'it works');
        $this->client->add(new NewJob($topic, 'done', id: '2'));
        if ($concurrency > 1) {
            $this->waitUntilGone($topic, '2');
        }
        $worker->signal(SIGTERM);
        $this->client->add(new NewJob($topic, 'done', id: '3'));
        $this->openGate('1');
        $this->assertSame(0, $worker->wait());
        $this->waitUntilGone($topic, '1');
        $this->assertNotContains('3', array_column($this->events('start'), 1), 'it asks for no more');
    }

    /** @dataProvider concurrencies */
    public function testAfterTheGraceWhatIsLeftIsReleased(int $concurrency): void
    {
        $topic = $this->newTopic();
        $this->client->add(new NewJob($topic, 'gate', id: '1', ttr: '10m'));
        $worker = $this->start([$topic], ['concurrency' => $concurrency, 'grace' => 1]);
        Poll::until(fn () => $this->events('start'), 'it works');
        $this->assertSame(0, $worker->end(SIGINT));
        $job = $this->client->get($topic, '1');
        $this->assertSame(['ready', 0], [$job->state, $job->attempt]);
        $this->assertFalse(posix_kill((int) $this->events('start')[0][3], 0), 'and nobody works on it any more');
    }

    /** @dataProvider concurrencies */
    public function testAPopThatWaitsIsHungUpAndLeasesNothing(int $concurrency): void
    {
        $topic = $this->newTopic();
        $worker = $this->start([$topic], ['concurrency' => $concurrency]);
        Poll::until(fn () => $this->client->call('GET', '/v1/stats')['waiting'] === 1, 'it waits');
        $worker->signal(SIGTERM);
        $this->assertSame(0, $worker->wait(15), 'half of what the pop would wait');
        Poll::until(fn () => $this->client->call('GET', '/v1/stats')['waiting'] === 0, 'nobody waits');
        $this->client->add(new NewJob($topic, 'done', id: '1'));
        $this->assertSame(['ready', 0], [$this->client->get($topic, '1')->state, count($this->events('start'))]);
    }

    /** While one works, so that a child has what its parent talks through, too. */
    public function testAPopIsHungUpWhileAnotherHandWorks(): void
    {
        $topic = $this->newTopic();
        $this->client->add(new NewJob($topic, 'gate', id: '1'));
        $worker = $this->start([$topic], ['concurrency' => 2]);
        Poll::until(fn () => $this->events('start'), 'it works');
        Poll::until(fn () => $this->client->call('GET', '/v1/stats')['waiting'] === 1, 'it waits');
        $worker->signal(SIGTERM);
        Poll::until(fn () => $this->client->call('GET', '/v1/stats')['waiting'] === 0, 'nobody waits');
        $this->assertTrue($worker->isRunning());
        $this->openGate('1');
        $this->assertSame(0, $worker->wait());
    }

    public function testAChildThatEndsBeforeItsHandlerFailsItsJob(): void
    {
        $topic = $this->newTopic();
        foreach (['exit', 'kill', 'memory'] as $how) {
            $this->client->add(new NewJob($topic, $how, id: $how, retry: ['ladder' => ['1h']]));
        }
        $worker = $this->start([$topic], ['concurrency' => 2]);
        $error = fn (string $id) => (string) $this->waitForState($topic, $id, 'retry')->lastError;
        $this->assertStringContainsString('status 3', $error('exit'));
        $this->assertStringContainsString('signal 9', $error('kill'));
        $this->assertStringContainsString('memory', $error('memory'));
        $worker->end();
    }

    public function testWhatAHandlerLeavesBehindHoldsUpNobody(): void
    {
        $topic = $this->newTopic();
        foreach (['background', 'hang', 'background', 'hang', 'done'] as $id => $how) {
            $this->client->add(new NewJob($topic, $how, id: (string) $id));
        }
        $before = microtime(true);
        $worker = $this->start([$topic], ['concurrency' => 2, 'grace' => 1]);
        foreach (range(0, 4) as $id) {
            $this->waitUntilGone($topic, (string) $id);
        }
        $this->assertSame(0, $worker->end());
        $this->assertLessThan(15, microtime(true) - $before);
    }

    /** @dataProvider concurrencies */
    public function testABodyThatPhpCannotHoldFailsItsOwnJobOnly(int $concurrency): void
    {
        $topic = $this->newTopic();
        $unreadable = new \Linger\Json('{"a":"\ud800"}');
        $this->client->add(new NewJob($topic, $unreadable, id: '1', retry: ['ladder' => ['1h']]));
        $this->client->add(new NewJob($topic, 'done', id: '2'));
        $worker = $this->start([$topic], ['concurrency' => $concurrency]);
        $this->waitUntilGone($topic, '2');
        $error = $this->waitForState($topic, '1', 'retry')->lastError;
        $this->assertStringContainsString('PHP cannot read the body', (string) $error);
        $worker->end();
    }

    /** @dataProvider concurrencies */
    public function testWhileTheServerIsAwayALeaseThatIsOverIsToldToTheHandler(int $concurrency): void
    {
        $server = new Server();
        $server->client()->add(new NewJob('away', 'gate', id: '1', ttr: '2s'));
        $worker = $this->start(['away'], ['concurrency' => $concurrency], ['LINGER_SERVER' => $server->url]);
        Poll::until(fn () => $this->events('start'), 'it works');
        $server->stop();
        Poll::until(fn () => $this->events('lost'), 'the handler knows');
        $this->assertSame(0, $worker->end());
    }

    /** @dataProvider concurrencies */
    public function testAHandlerMayUseTheClientOfItsWorker(int $concurrency): void
    {
        $topic = $this->newTopic();
        $jobs = array_map(static fn (int $n) => new NewJob($topic, 'add', id: (string) $n), range(1, 20));
        $this->client->addMany($jobs);
        $worker = $this->start([$topic], ['concurrency' => $concurrency]);
        foreach (range(1, 20) as $id) {
            $this->waitUntilGone($topic, (string) $id);
        }
        $worker->end();
        $this->assertSame(20, $this->client->topic("$topic.next")->counts['ready']);
    }

    public function testWithoutPcntlOneHandlerWorksAtATime(): void
    {
        $topic = $this->newTopic();
        $this->client->addMany([new NewJob($topic, 'done', id: '1'), new NewJob($topic, 'retry_in', id: '2')]);
        $functions = get_extension_funcs('pcntl') ?: [];
        $command = [PHP_BINARY, '-d', 'disable_functions=' . implode(',', $functions), ...Toolbox::phpOptions()];
        $arguments = [__DIR__ . '/programs/worker.php', $this->file, '{"concurrency":3}', $topic];
        $worker = new Process([...$command, ...$arguments], ['LINGER_SERVER' => self::$server->url]);
        $this->waitUntilGone($topic, '1');
        $this->waitUntilGone($topic, '2');
        $this->assertStringContainsString('without ext-pcntl', $worker->output());
        $this->assertCount(1, array_unique(array_column($this->events('start'), 3)));
        $this->assertSame(-SIGTERM, $worker->end());
    }

    public function testAWorkerMayCallByPsr18(): void
    {
        $topic = $this->newTopic();
        $jobs = array_map(static fn (int $n) => new NewJob($topic, 'done', id: (string) $n), range(1, 5));
        $this->client->addMany($jobs);
        $worker = $this->start([$topic], ['concurrency' => 2], ['BY_PSR18' => '1']);
        foreach (range(1, 5) as $id) {
            $this->waitUntilGone($topic, (string) $id);
        }
        $this->assertSame(0, $worker->end());
    }

    public function testAServerThatIsAwayIsAskedAgainAndAWrongOneIsNot(): void
    {
        $server = new Server(port: Toolbox::freePort());
        $server->stop();
        $worker = $this->start(['away'], ['concurrency' => 2], ['LINGER_SERVER' => $server->url]);
        $worker->waitFor('/asking again in 0\.2 s/');
        $server->start();
        $server->client()->add(new NewJob('away', 'done', id: '1'));
        Poll::until(fn () => $this->events('end'), 'it goes on');
        $worker->end();

        $refused = $this->start([' no topic'], ['concurrency' => 2]);
        $this->assertSame(255, $refused->wait());
        $this->assertStringContainsString('Linger\Exception\Invalid', $refused->output());
    }

    public function testAWorkerGoesOnThroughARollingRestart(): void
    {
        $redis = new Redis();
        $servers = [];
        foreach (['a', 'b'] as $name) {
            $servers[$name] = new Server(['--name', $name], [], $redis->url, Toolbox::freePort());
        }
        $urls = $servers['a']->url . ',' . $servers['b']->url;
        $client = new \Linger\Client($urls);
        $worker = $this->start(['roll'], ['concurrency' => 4, 'ttr' => '3s'], ['LINGER_SERVER' => $urls]);
        $next = 0;
        $addSome = static function () use ($client, &$next): void {
            $jobs = array_map(
                static fn (int $n) => new NewJob('roll', 'done', id: (string) $n, onConflict: 'keep', retain: 0),
                range($next + 1, $next + 50),
            );
            $next += 50;
            foreach ($client->addMany($jobs) as $added) {
                self::assertInstanceOf(\Linger\Job::class, $added);
            }
        };
        $done = fn () => count(array_unique(array_column($this->events('end'), 1)));
        foreach ($servers as $server) {
            $addSome();
            Poll::until(fn () => $done() > $next - 40, 'it works');
            $server->stop();
            $addSome();
            $server->start();
            $addSome();
        }
        Poll::until(fn () => $done() === $next, 'all are done');
        Poll::until(fn () => array_sum($client->topic('roll')->counts) === 0, 'none is left');
        $this->assertSame(0, $worker->end());
    }

    /** The example, which is here to be killed. */
    public function testAWorkerKilledInTheMiddleLosesNoJob(): void
    {
        $topic = $this->newTopic();
        $ids = array_map('strval', range(1, 1000));
        $this->client->addMany(array_map(static fn (string $id) => new NewJob($topic, id: $id, ttr: '2s'), $ids));
        $done = fn () => array_unique(file($this->file, FILE_IGNORE_NEW_LINES));
        $start = fn () => Process::php(
            Toolbox::root() . '/examples/worker.php',
            [$topic, $this->file, '4'],
            ['LINGER_SERVER' => self::$server->url],
        );
        $worker = $start();
        Poll::until(fn () => count($done()) > 200, 'it is in the middle');
        $worker->end(SIGKILL);
        $this->assertLessThan(1000, count($done()));
        $worker = $start();
        Poll::until(fn () => array_sum($this->client->topic($topic)->counts) === 0, 'none is left', 60);
        $this->assertSame(0, $worker->end());
        $this->assertEqualsCanonicalizing($ids, $done());
    }

    /**
     * @param list<string>          $topics
     * @param array<string, mixed>  $settings
     * @param array<string, string> $environment
     */
    private function start(array $topics, array $settings, array $environment = []): Process
    {
        return Process::php(
            __DIR__ . '/programs/worker.php',
            [$this->file, json_encode($settings, JSON_THROW_ON_ERROR), ...$topics],
            $environment + ['LINGER_SERVER' => self::$server->url],
        );
    }

    private function openGate(string $id): void
    {
        touch("$this->file.gate-$id");
    }

    /** @return list<list<string>> what happened, id, attempt, process */
    private function events(string $what): array
    {
        $events = array_map(static fn (string $line) => explode(' ', $line), file($this->file, FILE_IGNORE_NEW_LINES));
        return array_values(array_filter($events, static fn (array $event) => $event[0] === $what));
    }

    private function waitForState(string $topic, string $id, string $state): \Linger\Job
    {
        return Poll::until(function () use ($topic, $id, $state) {
            $job = $this->client->get($topic, $id);
            return $job->state === $state ? $job : null;
        }, "job $id is $state");
    }
}
