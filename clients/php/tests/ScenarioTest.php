<?php

declare(strict_types=1);

namespace Linger\Tests;

use Linger\Bytes;
use Linger\Changed;
use Linger\Client;
use Linger\Http\Psr18Transport;
use Linger\Job;
use Linger\LingerException;
use Linger\NewJob;
use Linger\Topic;
use PHPUnit\Framework\TestCase;

/** Every scenario that all clients replay, by both transports. */
final class ScenarioTest extends TestCase
{
    /** @var array<string, Server> */
    private static array $servers = [];

    public static function tearDownAfterClass(): void
    {
        array_map(static fn (Server $server) => $server->stop(), self::$servers);
    }

    public function scenarios(): iterable
    {
        $files = glob(Toolbox::root() . '/../scenarios/*.json');
        self::assertNotEmpty($files);
        foreach (['streams', 'psr18'] as $transport) {
            foreach ($files as $file) {
                yield basename($file, '.json') . " by $transport" => [$transport, $file];
            }
        }
    }

    /** @dataProvider scenarios */
    public function testItComesOutAsItIsWritten(string $transport, string $file): void
    {
        self::$servers[$transport] ??= new Server();
        $client = self::client($transport, self::$servers[$transport]);
        $saved = [];
        $scenario = json_decode((string) file_get_contents($file), true, 512, JSON_THROW_ON_ERROR);
        foreach ($scenario['steps'] as $number => $step) {
            $at = "{$scenario['name']}, step " . ($number + 1) . " ({$step['call']})";
            $answer = $this->play($client, $step, $saved, $at);
            foreach ($step['save'] ?? [] as $name => $path) {
                $saved["$$name"] = self::pick($answer, $path);
            }
        }
    }

    private static function client(string $transport, Server $server): Client
    {
        if ($transport === 'streams') {
            return $server->client();
        }
        $factory = new \GuzzleHttp\Psr7\HttpFactory();
        $psr18 = new \GuzzleHttp\Client(['timeout' => 20]);
        return $server->client(transport: new Psr18Transport($psr18, $factory, $factory));
    }

    private function play(Client $client, array $step, array $saved, string $at): mixed
    {
        $arguments = self::fill($step['args'], $saved);
        try {
            $answer = self::call($client, $step['call'], $arguments);
        } catch (LingerException $refusal) {
            $this->assertArrayHasKey('error', $step, "$at: {$refusal->getMessage()}");
            $this->assertRefusal($step['error'], $refusal, $at);
            return null;
        }
        $this->assertArrayNotHasKey('error', $step, "$at was not refused");
        $this->assertFits(self::fill($step['expect'], $saved), $answer, $at);
        return $answer;
    }

    /** The answer as the API gives it. */
    private static function call(Client $client, string $call, array $arguments): mixed
    {
        return match ($call) {
            'add' => self::told($client->add(self::newJob($arguments))),
            'add_many' => array_map(
                static fn (Job|LingerException $item) => $item instanceof Job
                    ? ['job' => self::told($item)]
                    : ['error' => ['code' => $item->reason->value, 'field' => $item->field]],
                $client->addMany(array_map(self::newJob(...), $arguments['jobs'])),
            ),
            'pop' => ['jobs' => array_map(self::told(...), $client->pop(...$arguments))],
            'jobs' => ['jobs' => array_map(
                self::told(...),
                iterator_to_array($client->jobs(...$arguments)),
            )],
            'topics' => ['topics' => array_map(
                static fn (Topic $topic) => $topic->fields,
                iterator_to_array($client->topics(...$arguments)),
            )],
            'history' => ['history' => $client->history(...$arguments)],
            default => self::plain($client->$call(...self::named($arguments))),
        };
    }

    private static function plain(mixed $answer): mixed
    {
        return match (true) {
            $answer instanceof Changed => ['changed' => $answer->changed]
                + ($answer->job === null ? [] : ['job' => self::told($answer->job)]),
            $answer instanceof Job => self::told($answer),
            is_int($answer) => ['count' => $answer],
            default => $answer->fields,
        };
    }

    /** @return array<string, mixed> */
    private static function told(Job $job): array
    {
        return $job->fields + ($job->rawBody === null ? [] : ['body' => $job->body]);
    }

    private static function newJob(array $fields): NewJob
    {
        if (isset($fields['body_base64'])) {
            $fields['body'] = new Bytes(base64_decode($fields['body_base64']));
            unset($fields['body_base64']);
        }
        return new NewJob(...self::named($fields));
    }

    /** Names as PHP spells them. */
    private static function named(array $arguments): array
    {
        $named = [];
        foreach ($arguments as $name => $value) {
            $named[lcfirst(str_replace('_', '', ucwords($name, '_')))] = $value;
        }
        return $named;
    }

    private function assertRefusal(array $expected, LingerException $refusal, string $at): void
    {
        $this->assertSame($expected['code'], $refusal->reason->value, "$at: {$refusal->getMessage()}");
        $this->assertSame($expected['status'] ?? $refusal->status, $refusal->status, $at);
        $this->assertSame($expected['field'] ?? $refusal->field, $refusal->field, $at);
    }

    private function assertFits(mixed $expected, mixed $answer, string $at): void
    {
        if ($expected === '$any') {
            $this->assertNotNull($answer, "$at is not there");
        } elseif (isset($expected['$length'])) {
            $this->assertCount($expected['$length'], $answer, $at);
        } elseif (!is_array($expected)) {
            $this->assertSame($expected, $answer, $at);
        } else {
            $this->assertIsArray($answer, $at);
            if (array_is_list($expected)) {
                $this->assertCount(count($expected), $answer, $at);
            }
            foreach ($expected as $key => $part) {
                if ($part === '$absent') {
                    $this->assertArrayNotHasKey($key, $answer, $at);
                } else {
                    $this->assertArrayHasKey($key, $answer, $at);
                    $this->assertFits($part, $answer[$key], "$at $key");
                }
            }
        }
    }

    private static function fill(mixed $value, array $saved): mixed
    {
        if (is_array($value)) {
            return array_map(static fn ($part) => self::fill($part, $saved), $value);
        }
        return is_string($value) ? $saved[$value] ?? $value : $value;
    }

    private static function pick(mixed $answer, string $path): mixed
    {
        foreach (explode('.', $path) as $key) {
            $answer = $answer[$key];
        }
        return $answer;
    }
}
