<?php

declare(strict_types=1);

namespace Linger\Tests;

/** A program that a test has started, with what it says in a file. */
final class Process
{
    /** @var resource */
    private $handle;
    private ?int $status = null;
    public readonly int $id;
    public readonly string $outputFile;

    /**
     * @param list<string>          $command
     * @param array<string, string> $environment besides that of the test
     */
    public function __construct(array $command, array $environment = [], ?string $folder = null)
    {
        $this->outputFile = Temp::file('output');
        $output = fopen($this->outputFile, 'a');
        $environment += getenv();
        $handle = proc_open($command, [['file', '/dev/null', 'r'], $output, $output], $pipes, $folder, $environment);
        if ($handle === false) {
            throw new \RuntimeException("cannot start $command[0]");
        }
        $this->handle = $handle;
        $this->id = proc_get_status($handle)['pid'];
    }

    /**
     * @param list<string>          $arguments
     * @param array<string, string> $environment
     */
    public static function php(string $script, array $arguments = [], array $environment = []): self
    {
        return new self([PHP_BINARY, ...Toolbox::phpOptions(), $script, ...$arguments], $environment);
    }

    public function __destruct()
    {
        if ($this->isRunning()) {
            $this->end(SIGKILL);
        }
    }

    public function output(): string
    {
        return (string) file_get_contents($this->outputFile);
    }

    /** Waits until it has said something that matches; answers the groups. */
    public function waitFor(string $pattern): array
    {
        return Poll::until(function () use ($pattern) {
            if (preg_match($pattern, $this->output(), $groups)) {
                return $groups;
            }
            if (!$this->isRunning()) {
                throw new \RuntimeException("it ended with $this->status: " . $this->output());
            }
            return null;
        }, "it says $pattern");
    }

    public function isRunning(): bool
    {
        if ($this->status === null) {
            $state = proc_get_status($this->handle);
            $this->status = $state['running'] ? null : ($state['signaled'] ? -$state['termsig'] : $state['exitcode']);
        }
        return $this->status === null;
    }

    public function signal(int $signal): void
    {
        posix_kill($this->id, $signal);
    }

    /** Waits for its end; answers its exit status. */
    public function wait(float $seconds = 30.0): int
    {
        Poll::until(fn () => !$this->isRunning(), "process {$this->id} ends:\n" . $this->output(), $seconds);
        return (int) $this->status;
    }

    public function end(int $signal = SIGTERM): int
    {
        $this->signal($signal);
        return $this->wait();
    }
}
