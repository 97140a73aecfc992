<?php

declare(strict_types=1);

namespace Linger\Tests;

use Linger\Client;
use Linger\Exception\NotFound;
use Linger\Exception\Unavailable;
use Linger\Http\Meanwhile;
use Linger\Http\Request;
use Linger\Http\Response;
use Linger\Http\Transport;
use Linger\Http\TransportException;
use Linger\NewJob;

/** Calls go to one of several servers until it is away, then to the next, which is kept. */
final class FailoverTest extends ServerTestCase
{
    public function testWhoCannotBeReachedIsPassedOver(): void
    {
        $topic = $this->newTopic();
        $nobody = 'http://127.0.0.1:' . Toolbox::freePort();
        $client = new Client([$nobody, self::$server->url]);
        $client->add(new NewJob($topic, id: '1', delay: '1h'));
        $this->assertSame('ready', $client->run($topic, '1')->job?->state);
    }

    public function testTheNextServerIsKept(): void
    {
        $away = new Proxy(self::$server, 'refuse,pass');
        $client = new Client([$away->url, self::$server->url]);
        iterator_to_array($client->topics());
        iterator_to_array($client->topics());
        $this->assertCount(1, $away->requests());
    }

    public function testALostAnswerIsAskedForAtTheNextServer(): void
    {
        $topic = $this->newTopic();
        $lossy = new Proxy(self::$server, 'drop');
        $other = new Proxy(self::$server, 'pass');
        $client = new Client("$lossy->url, $other->url");
        $client->add(new NewJob($topic, delay: '1h'));
        $this->assertCount(1, $lossy->requests());
        $this->assertCount(1, $other->requests());
        $this->assertSame(1, $this->client->topic($topic)->counts['delayed']);
    }

    /** As a worker's touches do while its pop waits. */
    public function testACallWithinAnotherIsNotUndoneByIt(): void
    {
        $transport = new class implements Transport {
            /** @var list<string> */
            public array $called = [];
            public ?\Closure $within = null;

            public function send(Request $request, ?Meanwhile $meanwhile = null): Response
            {
                $this->called[] = (string) parse_url($request->url, PHP_URL_HOST);
                [$within, $this->within] = [$this->within, null];
                $within === null ?: $within();
                return end($this->called) === 'b' && $within === null
                    ? new Response(200, [], '{}')
                    : throw new TransportException('away', false);
            }
        };
        $client = new Client(['http://a', 'http://b'], transport: $transport);
        $transport->within = static fn () => $client->call('GET', '/v1/whoami');
        $client->call('GET', '/v1/whoami');
        $client->call('GET', '/v1/whoami');
        $this->assertSame(['a', 'a', 'b', 'b', 'b'], $transport->called);
    }

    public function testEveryAddressIsTriedOnce(): void
    {
        $proxies = array_map(static fn () => new Proxy(self::$server, 'refuse'), range(1, 3));
        $client = new Client(array_map(static fn (Proxy $proxy) => $proxy->url, $proxies));
        $refusal = $this->assertRefused(Unavailable::class, fn () => $client->topic('t'));
        $this->assertSame(503, $refusal->status);
        $this->assertFalse($refusal->nothingDone);
        foreach ($proxies as $proxy) {
            $this->assertCount(1, $proxy->requests());
        }
    }

    public function testARefusalIsNoReasonToAskAnother(): void
    {
        $first = new Proxy(self::$server, 'pass');
        $second = new Proxy(self::$server, 'pass');
        $client = new Client([$first->url, $second->url]);
        $this->assertRefused(NotFound::class, fn () => $client->get('nothing', 'here'));
        $this->assertCount(0, $second->requests());
    }
}
