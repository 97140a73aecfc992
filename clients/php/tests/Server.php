<?php

declare(strict_types=1);

namespace Linger\Tests;

use Linger\Client;

/** A real server, with a store of its own unless told otherwise. */
final class Server
{
    private Process $process;
    public readonly string $url;
    /** @var list<string> */
    private array $command;
    /** @var array<string, string> */
    private array $environment;

    /**
     * @param list<string>          $arguments
     * @param array<string, string> $environment
     */
    public function __construct(array $arguments = [], array $environment = [], ?string $store = null, int $port = 0)
    {
        $store ??= Temp::folder('store');
        $this->environment = $environment;
        $this->command = [Toolbox::linger(), 'serve', '--listen', "127.0.0.1:$port", '--store', $store, ...$arguments];
        $this->url = $this->start();
    }

    public function start(): string
    {
        $this->process = new Process($this->command, $this->environment, Temp::folder('work'));
        // A line may be there in part, so its address counts only with what follows it.
        return $this->process->waitFor('#listens on (https?://[0-9.:]+),.* ready#s')[1];
    }

    public function stop(): void
    {
        $this->process->end();
    }

    /** @param array<string, mixed> $settings of the client */
    public function client(mixed ...$settings): Client
    {
        return new Client($this->url, ...$settings);
    }
}
