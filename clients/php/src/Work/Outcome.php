<?php

declare(strict_types=1);

namespace Linger\Work;

use Linger\Again;
use Linger\Client;
use Linger\Duration;
use Linger\Job;
use Linger\RetryIn;

/**
 * What became of a job in its handler's hands.
 *
 * @internal
 */
final class Outcome
{
    private const ERROR_CHARACTERS_MAX = 4096;

    private function __construct(
        public readonly bool $done,
        public readonly bool $again = false,
        public readonly ?string $error = null,
        public readonly int|float|string|null $retryIn = null,
    ) {
    }

    /** Runs a handler to its end, whatever that is. */
    public static function of(callable $handler, mixed ...$arguments): self
    {
        try {
            $handler(...$arguments);
            return new self(true);
        } catch (GraceOver $over) {
            throw $over;
        } catch (Again $again) {
            $retryIn = $again->retryIn === null ? null : Duration::wire($again->retryIn);
            return new self(false, again: true, retryIn: $retryIn);
        } catch (RetryIn $failure) {
            $retryIn = Duration::wire($failure->retryIn);
            return new self(false, error: self::clean(self::text($failure)), retryIn: $retryIn);
        } catch (\Throwable $failure) {
            return self::failed(self::text($failure));
        }
    }

    public static function failed(string $error): self
    {
        return new self(false, error: self::clean($error));
    }

    /** Tells the server. */
    public function tell(Client $client, Job $job): void
    {
        if ($this->done) {
            $client->finish($job);
        } else {
            $client->fail($job, error: $this->error, retryIn: $this->retryIn, again: $this->again);
        }
    }

    /** As it travels from a child to its parent. */
    public function line(): string
    {
        return json_encode(get_object_vars($this), JSON_THROW_ON_ERROR) . "\n";
    }

    public static function fromLine(string $line): ?self
    {
        $fields = str_ends_with($line, "\n") ? json_decode($line, true) : null;
        return is_array($fields) ? new self(...$fields) : null;
    }

    /** An error's text as the server takes it. */
    public static function clean(string $text): string
    {
        // Texts of drivers may be in any encoding, and JSON takes only UTF-8.
        $clean = preg_replace('/[^\x09\x0a\x0d\x20-\x7e]/', '?', $text);
        $text = preg_match('//u', $text) ? $text : (string) $clean;
        preg_match('/^.{0,' . self::ERROR_CHARACTERS_MAX . '}/us', $text, $start);
        return $start[0];
    }

    private static function text(\Throwable $failure): string
    {
        return $failure->getMessage() !== '' ? $failure->getMessage() : $failure::class;
    }
}
