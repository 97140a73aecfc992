<?php

declare(strict_types=1);

namespace Linger\Tests;

use Linger\Bytes;
use Linger\Client;
use Linger\Code;
use Linger\Exception\Invalid;
use Linger\Exception\Unauthorized;
use Linger\Exception\Unavailable;
use Linger\Json;
use Linger\NewJob;

final class ClientTest extends ServerTestCase
{
    public function testServersAndKeyAreThoseOfTheEnvironment(): void
    {
        putenv('LINGER_SERVER=http://127.0.0.1:' . Toolbox::freePort() . ', ' . self::$server->url . '/');
        try {
            $this->assertIsArray(iterator_to_array((new Client())->topics()));
        } finally {
            putenv('LINGER_SERVER');
        }
    }

    public function testABodyComesBackAsItWasGiven(): void
    {
        $topic = $this->newTopic();
        $bodies = ['text', 'ümläut "quoted"', 42, 1.5, 2.0, true, ['a' => ['b', null]], new Bytes("\x00\xff\xfe")];
        foreach ($bodies as $number => $body) {
            $this->client->add(new NewJob($topic, $body, id: (string) $number));
            $this->assertEquals($body, $this->client->get($topic, (string) $number)->body);
        }
        foreach ($this->client->pop($topic, count($bodies)) as $job) {
            $this->assertEquals($bodies[(int) $job->id], $job->body);
        }
    }

    public function testJsonIsSentByteForByte(): void
    {
        $topic = $this->newTopic();
        $text = '{"b": 1.10, "a": {}, "big": 123456789012345678901234567890}';
        $this->client->add(new NewJob($topic, new Json($text), id: '1'));
        $raw = (string) file_get_contents(self::$server->url . "/v1/topics/$topic/jobs/1");
        $this->assertStringContainsString($text, $raw);
        $this->client->add(new NewJob($topic, new Json('null'), id: 'null'));
        $this->assertStringContainsString(
            '"body":null',
            (string) file_get_contents(self::$server->url . "/v1/topics/$topic/jobs/null"),
        );
    }

    public function testANumberThatPhpCannotHoldIsText(): void
    {
        $topic = $this->newTopic();
        $this->client->add(new NewJob($topic, new Json('[123456789012345678901234567890]'), id: '1'));
        $this->assertSame(['123456789012345678901234567890'], $this->client->get($topic, '1')->body);
    }

    public function testABodyThatPhpCannotHoldSpoilsNoOther(): void
    {
        $topic = $this->newTopic();
        $deep = str_repeat('[', 100) . str_repeat('{"a":[', 250) . str_repeat(']}', 250) . str_repeat(']', 100);
        $tricky = '{"body": "\\"}],[{\\\\", "a" : [ {} , "]" ]}';
        $texts = ['{"a":"\ud800"}', $deep, $tricky, '"text"', '-1.5e3', 'null', '[{"body":{"body":[]}}]'];
        foreach ($texts as $id => $text) {
            $this->client->add(new NewJob($topic, new Json($text), id: (string) $id));
        }
        $jobs = $this->client->pop($topic, 10);
        $this->assertCount(count($texts), $jobs);
        foreach ([...$jobs, ...$this->client->jobs($topic, body: true)] as $job) {
            $text = $texts[(int) $job->id];
            $this->assertSame($text, $job->rawBody);
            if ($job->id < 2) {
                $refusal = $this->assertRefused(Invalid::class, fn () => $job->body);
                $this->assertStringContainsString('rawBody', $refusal->getMessage());
            } else {
                $this->assertSame(json_decode($text, true), $job->body);
            }
            $this->assertSame($topic, $job->topic);
        }
    }

    public function testDotsAreAsGoodAsOtherIds(): void
    {
        $topic = $this->newTopic();
        foreach (['.', '..'] as $id) {
            $this->client->add(new NewJob($topic, id: $id, delay: '1h'));
            $this->assertSame($id, $this->client->get($topic, $id)->id);
        }
    }

    public function testBytesThatAreNotTextMustBeCalledSo(): void
    {
        $refusal = $this->assertRefused(Invalid::class, fn () => $this->client->add(new NewJob('t', "\xff")));
        $this->assertSame('body', $refusal->field);
        $this->assertStringContainsString('Linger\Bytes', $refusal->getMessage());
    }

    public function testTimesAreThoseOfTheLanguage(): void
    {
        $topic = $this->newTopic();
        $at = new \DateTimeImmutable('2999-01-01 12:00:00.250', new \DateTimeZone('+02:00'));
        $job = $this->client->add(new NewJob($topic, at: $at, id: 'at'));
        $this->assertEquals($at, $job->due);
        $moved = $this->client->update($topic, 'at', ['at' => $at->modify('+1 day')]);
        $this->assertEquals($at->modify('+1 day'), $moved->job?->due);
        $before = new \DateTimeImmutable();
        $job = $this->client->add(new NewJob($topic, delay: new \DateInterval('PT1H30M'), id: 'delay'));
        $this->assertEqualsWithDelta(5400, $job->due?->getTimestamp() - $before->getTimestamp(), 30);
        $found = iterator_to_array($this->client->jobs($topic, dueBefore: new \DateTimeImmutable('+1 day')));
        $this->assertSame(['delay'], array_map(static fn ($job) => $job->id, $found));
    }

    public function testJobsComePageAfterPage(): void
    {
        $topic = $this->newTopic();
        $jobs = array_map(static fn (int $n) => new NewJob($topic, $n, id: (string) $n, delay: '1h'), range(1, 25));
        $this->client->addMany($jobs);
        $found = iterator_to_array($this->client->jobs($topic, limit: 10, body: true));
        $numbers = array_map(static fn ($job) => $job->body, $found);
        sort($numbers);
        $this->assertSame(range(1, 25), $numbers);
    }

    public function testALargeBodyGoesThroughAndBack(): void
    {
        $topic = $this->newTopic();
        $body = str_repeat('0123456789abcdef', 60_000);
        $this->client->add(new NewJob($topic, $body, id: '1'));
        $this->assertSame($body, $this->client->get($topic, '1')->body);
        $refusal = $this->assertRefused(
            \Linger\Exception\TooLarge::class,
            fn () => $this->client->add(new NewJob($topic, $body . $body)),
        );
        $this->assertSame(413, $refusal->status);
    }

    public function testAConnectionIsKeptForTheNextCall(): void
    {
        $transport = new \Linger\Http\StreamTransport();
        $client = self::$server->client(transport: $transport);
        $client->call('GET', '/v1/whoami');
        $idle = new \ReflectionProperty($transport, 'idle');
        $first = $idle->getValue($transport);
        $this->assertCount(1, $first);
        $client->call('GET', '/v1/whoami');
        $this->assertSame($first, $idle->getValue($transport));
    }

    public function testAConnectionThatTheServerHasClosedIsMadeAnew(): void
    {
        $server = new Server(port: Toolbox::freePort());
        $client = $server->client();
        $client->call('GET', '/v1/whoami');
        $server->stop();
        $server->start();
        // Not repeated if an answer is lost, so it must not be sent on the old connection.
        $this->assertSame(0, $client->redrive('t'));
    }

    public function testAHeaderCannotBringAlongAnother(): void
    {
        $this->expectException(\InvalidArgumentException::class);
        $this->client->add(new NewJob($this->newTopic()), idempotencyKey: "a\r\nx-other: b");
    }

    public function testWhoDoesNotAnswerInTimeIsUnavailable(): void
    {
        $silent = stream_socket_server('tcp://127.0.0.1:0');
        $client = new Client('http://' . stream_socket_get_name($silent, false), timeout: 0.2);
        $refusal = $this->assertRefused(Unavailable::class, fn () => $client->run('t', '1'));
        $this->assertNull($refusal->status);
        $this->assertSame(Code::Unavailable, $refusal->reason);
        $this->assertStringContainsString('no answer in time', $refusal->getMessage());
    }

    public function testAPopMayWaitForLongerThanOtherCalls(): void
    {
        $this->assertSame([], self::$server->client(timeout: 0.5)->pop($this->newTopic(), wait: '1s500ms'));
    }

    public function testNobodyThereIsUnavailable(): void
    {
        $client = new Client('http://127.0.0.1:' . Toolbox::freePort());
        $refusal = $this->assertRefused(Unavailable::class, fn () => $client->run('t', '1'));
        $this->assertNull($refusal->status);
        $this->assertTrue($refusal->nothingDone);
    }

    public function testAServerWithKeysIsCalledWithOne(): void
    {
        $key = bin2hex(random_bytes(32));
        $server = new Server(environment: ['LINGER_BOOTSTRAP_KEY' => $key]);
        $refusal = $this->assertRefused(Unauthorized::class, fn () => $server->client()->topic('t'));
        $this->assertSame(401, $refusal->status);
        $made = $server->client(key: $key)->call('POST', '/v1/keys', ['name' => 'test', 'scopes' => ['add']]);
        $client = $server->client(key: $made['key']);
        $client->add(new NewJob('t', delay: '1h'));
        $this->assertRefused(\Linger\Exception\Forbidden::class, fn () => $client->pop('t'));
    }

    public function testTlsIsTrustedByACaFile(): void
    {
        $folder = Temp::folder('tls');
        $make = <<<'SH'
            openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3 -subj '/CN=ours' \
              -keyout ca-key.pem -out ca.pem
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=linger -keyout key.pem -out a.csr
            echo subjectAltName=DNS:localhost,IP:127.0.0.1 > names
            openssl x509 -req -in a.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -out cert.pem -extfile names
            SH;
        exec('cd ' . escapeshellarg($folder) . " && { $make\n} 2>&1", $said, $status);
        $this->assertSame(0, $status, implode("\n", $said));
        $server = new Server(['--set', "tls.cert=$folder/cert.pem", '--set', "tls.key=$folder/key.pem"]);
        $url = str_replace('http://', 'https://', $server->url);

        $topic = $this->newTopic();
        $client = new Client($url, ca: "$folder/ca.pem");
        $client->add(new NewJob($topic, str_repeat('x', 500_000), id: '1'));
        $this->assertSame(500_000, strlen($client->pop($topic)[0]->body));

        $refusal = $this->assertRefused(Unavailable::class, fn () => (new Client($url))->topic($topic));
        $this->assertStringContainsString('certificate', $refusal->getMessage());
        $this->assertTrue($refusal->nothingDone);
    }
}
