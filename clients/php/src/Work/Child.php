<?php

declare(strict_types=1);

namespace Linger\Work;

use Linger\Context;

/**
 * A process that runs one handler, as its parent sees it.
 *
 * @internal
 */
final class Child
{
    private const LOST = "lost\n";

    /** How long it may take to end after its handler has. */
    private const END_SECONDS_MAX = 30.0;
    /** Before one is looked for again that is about to end. */
    private const LOOK_SECONDS = 0.01;

    private string $line = '';
    private bool $isWorking = true;
    private float $endedAt = INF;
    /** How its process ended; null before it has. */
    private ?string $ending = null;
    private bool $isTold = false;

    /** @param resource $stream */
    private function __construct(
        public readonly int $process,
        public readonly mixed $stream,
        public readonly Hold $hold,
    ) {
        stream_set_blocking($stream, false);
    }

    /**
     * Forks; null if there is no process to be had. In the child it does not return.
     *
     * @param array<resource> $siblings what the child has no business with
     */
    public static function start(Hold $hold, callable $handler, array $siblings): ?self
    {
        $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if ($pair === false) {
            return null;
        }
        [$ours, $theirs] = $pair;
        $process = pcntl_fork();
        if ($process === 0) {
            array_map('fclose', [$ours, ...array_values($siblings)]);
            self::work($hold, $handler, $theirs);
        }
        fclose($theirs);
        return $process > 0 ? new self($process, $ours, $hold) : null;
    }

    /** Whether it may still say something. */
    public function isOpen(): bool
    {
        return $this->isWorking && !feof($this->stream);
    }

    public function secondsToNext(): float
    {
        return $this->isWorking && !$this->isOpen() ? self::LOOK_SECONDS : $this->hold->secondsToNext();
    }

    /** Looks for its outcome, and does what is due for its job. */
    public function proceed(): void
    {
        if ($this->isWorking) {
            // In this order, so that nothing is missed which it said before its end.
            $isGone = $this->isGone();
            $this->listen();
            if ($this->isWorking && $isGone) {
                $this->end(Outcome::failed((string) $this->ending));
            }
        }
        $this->hold->proceed();
        if ($this->isWorking && $this->hold->isLost() && !$this->isTold) {
            $this->isTold = true;
            @fwrite($this->stream, self::LOST);
        }
    }

    /** Ends it for good, so that it does no more to a job that is given back. */
    public function kill(): void
    {
        if ($this->ending === null) {
            posix_kill($this->process, SIGKILL);
            $this->reap(0);
        }
        if ($this->isWorking) {
            $this->listen();
            $this->isWorking = false;
        }
    }

    /** Whether its process is no more. One that does not end after its handler, as it should, is ended. */
    public function isGone(): bool
    {
        if ($this->ending === null) {
            Clock::now() > $this->endedAt + self::END_SECONDS_MAX ? $this->kill() : $this->reap(WNOHANG);
        }
        return $this->ending !== null;
    }

    /** Its outcome is a line. What its handler has started may keep the stream open. */
    private function listen(): void
    {
        $this->line .= (string) @stream_get_contents($this->stream);
        $outcome = Outcome::fromLine($this->line);
        if ($outcome !== null) {
            $this->end($outcome);
        }
    }

    private function end(Outcome $outcome): void
    {
        $this->isWorking = false;
        $this->endedAt = Clock::now();
        $this->hold->end($outcome);
    }

    private function reap(int $flags): void
    {
        $process = pcntl_waitpid($this->process, $status, $flags);
        if ($process !== 0) {
            $this->ending = match (true) {
                $process < 0 => 'the process of the handler ended before the handler did',
                pcntl_wifsignaled($status) => 'the process of the handler was ended by signal '
                    . pcntl_wtermsig($status),
                default => 'the process of the handler ended with status ' . pcntl_wexitstatus($status)
                    . ' before the handler did',
            };
        }
    }

    /** @param resource $stream */
    private static function work(Hold $hold, callable $handler, mixed $stream): never
    {
        // Who stops the worker means the parent, which waits for this process.
        foreach ([SIGTERM, SIGINT] as $signal) {
            pcntl_signal($signal, static fn () => null);
        }
        stream_set_blocking($stream, false);
        $isLost = false;
        $context = new Context(static function () use ($stream, &$isLost): bool {
            return $isLost = $isLost || @fread($stream, strlen(self::LOST)) === self::LOST;
        });
        $outcome = null;
        register_shutdown_function(static function () use ($stream, &$outcome): void {
            $fatal = error_get_last();
            if ($outcome === null && $fatal !== null && ($fatal['type'] & (E_ERROR | E_COMPILE_ERROR)) !== 0) {
                self::report($stream, Outcome::failed($fatal['message']));
            }
        });
        $outcome = Outcome::of($handler, $hold->job, $context);
        self::report($stream, $outcome);
        exit(0);
    }

    /** @param resource $stream */
    private static function report(mixed $stream, Outcome $outcome): void
    {
        stream_set_blocking($stream, true);
        @fwrite($stream, $outcome->line());
        fclose($stream);
    }
}
