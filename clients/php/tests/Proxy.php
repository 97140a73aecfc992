<?php

declare(strict_types=1);

namespace Linger\Tests;

use Linger\Client;

/** A proxy before a server that spoils answers as planned; see programs/proxy.php. */
final class Proxy
{
    private readonly Process $process;
    public readonly string $url;

    public function __construct(Server $server, string $plan)
    {
        $upstream = str_replace('http://', 'tcp://', $server->url);
        $this->process = Process::php(__DIR__ . '/programs/proxy.php', [$upstream, $plan]);
        $this->url = 'http://127.0.0.1:' . $this->process->waitFor('/port (\d+)\n/')[1];
    }

    public function client(): Client
    {
        return new Client($this->url);
    }

    /** @return list<string> the requests it has got */
    public function requests(): array
    {
        return array_slice(explode("\n", trim($this->process->output())), 1);
    }
}
