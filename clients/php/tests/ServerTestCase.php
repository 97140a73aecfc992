<?php

declare(strict_types=1);

namespace Linger\Tests;

use Linger\Client;
use Linger\LingerException;
use PHPUnit\Framework\TestCase;

/** Tests that share one server; each takes topics of its own. */
abstract class ServerTestCase extends TestCase
{
    protected static Server $server;
    protected Client $client;

    public static function setUpBeforeClass(): void
    {
        self::$server = new Server();
    }

    public static function tearDownAfterClass(): void
    {
        self::$server->stop();
    }

    protected function setUp(): void
    {
        $this->client = self::$server->client();
    }

    /** A name that no other test has. */
    protected function newTopic(): string
    {
        return 't.' . bin2hex(random_bytes(6));
    }

    /**
     * @template T of LingerException
     * @param  class-string<T> $class
     * @return T
     */
    protected function assertRefused(string $class, callable $call): LingerException
    {
        try {
            $call();
        } catch (LingerException $refusal) {
            $this->assertInstanceOf($class, $refusal, $refusal->getMessage());
            return $refusal;
        }
        $this->fail("was not refused as $class");
    }

    protected function waitUntilGone(string $topic, string $id): void
    {
        Poll::until(function () use ($topic, $id) {
            try {
                $this->client->get($topic, $id);
                return false;
            } catch (\Linger\Exception\NotFound) {
                return true;
            }
        }, "job $id is gone");
    }
}
