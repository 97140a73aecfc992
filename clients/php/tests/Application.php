<?php

declare(strict_types=1);

namespace Linger\Tests;

/** An application behind PHP's own web server that receives deliveries; see programs/receiver.php. */
final class Application
{
    private readonly Process $process;
    private readonly string $file;
    public readonly string $url;

    /**
     * @param list<string>          $topics
     * @param array<string, string> $environment
     */
    public function __construct(array $topics, string $secrets, array $environment = [])
    {
        $this->file = Temp::file('deliveries');
        touch($this->file);
        $environment += ['FILE' => $this->file, 'TOPICS' => implode(',', $topics), 'SECRETS' => $secrets];
        $command = [PHP_BINARY, ...Toolbox::phpOptions(), '-S', '127.0.0.1:0', __DIR__ . '/programs/receiver.php'];
        $this->process = new Process($command, $environment);
        $this->url = $this->process->waitFor('#\((http://127\.0\.0\.1:\d+)\) started#')[1];
    }

    /** @return list<array<string, mixed>> */
    public function deliveries(): array
    {
        $lines = file($this->file, FILE_IGNORE_NEW_LINES);
        return array_map(static fn (string $line) => json_decode($line, true), $lines);
    }

    /** @return list<array<string, mixed>> */
    public function waitForDeliveries(int $count): array
    {
        Poll::until(fn () => count($this->deliveries()) >= $count, "$count deliveries came");
        return $this->deliveries();
    }

    public function openGate(): void
    {
        touch("$this->file.gate");
    }
}
