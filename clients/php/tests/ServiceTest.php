<?php

declare(strict_types=1);

namespace Linger\Tests;

use Linger\Exception\NotFound;
use Linger\NewJob;
use Linger\Registration;
use Linger\Webhook;

/** An application that is called for its jobs. */
final class ServiceTest extends ServerTestCase
{
    private string $topic;
    private string $app;

    protected function setUp(): void
    {
        parent::setUp();
        $this->topic = $this->newTopic();
        $this->app = "app.$this->topic";
    }

    public function testARegisteredApplicationIsCalledForItsTopicUntilItStops(): void
    {
        $application = new Application([$this->topic], Webhook::UNSIGNED);
        $register = $this->register($application->url);
        $worker = $this->waitForWorker();
        $this->assertSame([$application->url, [$this->topic]], [$worker['url'], $worker['topics']]);
        $this->assertSame('1s', $worker['lease']);

        $this->client->add(new NewJob($this->topic, ['n' => 1], id: '1', target: "worker:$this->app"));
        $this->waitUntilGone($this->topic, '1');
        $this->assertSame(['n' => 1], $application->deliveries()[0]['body']);

        $this->assertSame(0, $register->end());
        $this->assertSame([], $this->workers());
    }

    public function testHeartbeatsKeepItKnown(): void
    {
        $register = $this->register('http://127.0.0.1:1/');
        $worker = $this->waitForWorker();
        $later = new \DateTimeImmutable($worker['expires'] . ' +1500 ms');
        Poll::until(fn () => new \DateTimeImmutable($this->waitForWorker()['expires']) > $later, 'it beats');
        $this->assertTrue($register->isRunning());
        $this->assertSame($worker['id'], $this->waitForWorker()['id']);
        $this->assertSame($worker['registered'], $this->waitForWorker()['registered']);
    }

    public function testWhoIsForgottenRegistersAgain(): void
    {
        $register = $this->register('http://127.0.0.1:1/');
        $first = $this->waitForWorker()['id'];
        $this->client->call('DELETE', "/v1/workers/$first");
        $second = $this->waitForWorker()['id'];
        $this->assertNotSame($first, $second);
        $register->end();
        $this->assertSame([], $this->workers());
    }

    public function testAStopLetsCallsUnderWayEnd(): void
    {
        $application = new Application([$this->topic], Webhook::UNSIGNED);
        $register = $this->register($application->url);
        $this->waitForWorker();
        $this->client->add(new NewJob($this->topic, 'gate', id: '1', target: "worker:$this->app"));
        $application->waitForDeliveries(1);
        $register->signal(SIGTERM);
        Poll::until(fn () => $this->waitForWorker()['state'] === 'draining', 'it drains');
        $this->assertTrue($register->isRunning());
        $this->client->add(new NewJob($this->topic, 'x', id: '2', target: "worker:$this->app"));
        $application->openGate();
        $this->assertSame(0, $register->wait());
        $this->waitUntilGone($this->topic, '1');
        $this->assertSame([], $this->workers());
        $this->assertSame('ready', $this->client->get($this->topic, '2')->state, 'it is called for no more');
    }

    public function testItWaitsForAServerThatIsAway(): void
    {
        $server = new Server(port: Toolbox::freePort());
        $server->stop();
        $register = $this->register('http://127.0.0.1:1/', $server->url);
        $register->waitFor('/again in 0\.2 s/');
        $server->start();
        Poll::until(fn () => $server->client()->call('GET', '/v1/workers')['workers'], 'it registers');
        $this->assertSame(0, $register->end());
    }

    public function testWhatIsRefusedForGoodIsTold(): void
    {
        $register = $this->register('ftp://127.0.0.1/');
        $this->assertSame(1, $register->wait());
        $this->assertStringContainsString('linger-register: ', $register->output());
    }

    public function testItMayLiveWithinAnotherLoop(): void
    {
        $registration = new Registration($this->client, $this->app, 'http://127.0.0.1:1/', [$this->topic], lease: 30);
        $this->assertEqualsWithDelta(10, $registration->tick(), 5);
        $id = (string) $registration->id();
        $this->assertSame('live', $this->client->call('GET', "/v1/workers/$id")['state']);
        $registration->end();
        $this->assertRefused(NotFound::class, fn () => $this->client->call('GET', "/v1/workers/$id"));
    }

    private function register(string $url, ?string $server = null): Process
    {
        $arguments = ['--app', $this->app, '--url', $url, '--topic', $this->topic, '--lease', '1s'];
        $environment = ['LINGER_SERVER' => $server ?? self::$server->url];
        return Process::php(Toolbox::root() . '/bin/linger-register', $arguments, $environment);
    }

    /** @return list<array<string, mixed>> */
    private function workers(): array
    {
        return $this->client->call('GET', "/v1/workers?app=$this->app")['workers'];
    }

    /** @return array<string, mixed> */
    private function waitForWorker(): array
    {
        return Poll::until(fn () => $this->workers(), 'it is registered')[0];
    }
}
