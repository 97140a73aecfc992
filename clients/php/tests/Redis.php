<?php

declare(strict_types=1);

namespace Linger\Tests;

use PHPUnit\Framework\Assert;

/** A Redis of the test's own. */
final class Redis
{
    private readonly Process $process;
    public readonly string $url;

    public function __construct()
    {
        if (trim((string) shell_exec('command -v redis-server')) === '') {
            $why = 'there is no redis-server';
            getenv('CI') ? Assert::fail($why) : Assert::markTestSkipped($why);
        }
        $port = (string) Toolbox::freePort();
        $this->process = new Process(['redis-server', '--port', $port, '--save', '', '--appendonly', 'no']);
        $this->process->waitFor('/Ready to accept connections/');
        $this->url = "redis://127.0.0.1:$port";
    }
}
