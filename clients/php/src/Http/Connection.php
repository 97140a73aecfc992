<?php

declare(strict_types=1);

namespace Linger\Http;

/**
 * One connection, for one exchange at a time.
 *
 * @internal
 */
final class Connection
{
    private const ANSWER_HEAD_BYTES_MAX = 65536;
    private const READ_BYTES = 65536;

    private string $received = '';
    private float $usedAt;
    private readonly int $owner;

    /** @param resource $stream */
    private function __construct(private $stream)
    {
        $this->usedAt = self::now();
        $this->owner = (int) getmypid();
    }

    public static function open(string $origin, float $timeout, ?string $ca): self
    {
        $context = stream_context_create(['ssl' => $ca === null ? [] : ['cafile' => $ca]]);
        $warnings = [];
        // What is wrong with a certificate is told by warnings alone.
        set_error_handler(static function (int $level, string $text) use (&$warnings): bool {
            $warnings[] = trim(str_replace('stream_socket_client():', '', $text));
            return true;
        });
        try {
            $stream = stream_socket_client($origin, $number, $reason, $timeout, STREAM_CLIENT_CONNECT, $context);
        } finally {
            restore_error_handler();
        }
        if ($stream === false) {
            $reason = $reason !== '' ? $reason : implode('; ', $warnings);
            throw new TransportException("no connection to $origin: $reason", false);
        }
        stream_set_blocking($stream, false);
        return new self($stream);
    }

    public function exchange(Request $request, ?Meanwhile $meanwhile): Response
    {
        $until = self::now() + $request->timeout;
        $this->write(self::message($request), $until);
        do {
            $response = $this->readResponse($until, $meanwhile);
        } while ($response->status < 200);
        $this->usedAt = self::now();
        return $response;
    }

    /** Ends the connection even if a child process has it open too, so that the server sees it. */
    public function hangUp(): void
    {
        @stream_socket_shutdown($this->stream, STREAM_SHUT_RDWR);
    }

    public function isReusable(Response $response): bool
    {
        return strtolower($response->headers['connection'] ?? '') !== 'close'
            && (isset($response->headers['content-length']) || isset($response->headers['transfer-encoding']))
            && $this->received === '';
    }

    /** Whether a request may go out: one that the server has closed meanwhile has its end to be read. */
    public function isFresh(float $idleSecondsMax): bool
    {
        return $this->owner === getmypid()
            && self::now() - $this->usedAt < $idleSecondsMax
            && !$this->isReadable();
    }

    private static function message(Request $request): string
    {
        $parts = parse_url($request->url);
        $target = ($parts['path'] ?? '/') . (isset($parts['query']) ? '?' . $parts['query'] : '');
        $host = $parts['host'] . (isset($parts['port']) ? ':' . $parts['port'] : '');
        $head = "$request->method $target HTTP/1.1\r\nhost: $host\r\n";
        foreach ($request->headers as $name => $value) {
            if (strpbrk($value, "\r\n\0") !== false) {
                throw new \InvalidArgumentException("the header $name has a line break in it");
            }
            $head .= "$name: $value\r\n";
        }
        return $head . 'content-length: ' . strlen($request->body) . "\r\n\r\n" . $request->body;
    }

    private function write(string $message, float $until): void
    {
        while ($message !== '') {
            $written = @fwrite($this->stream, $message);
            if ($written === false) {
                // The server may have answered before it had read all, and closed: the answer is looked for.
                return;
            }
            $message = substr($message, $written);
            if ($written === 0) {
                $this->sleep($until, null, true);
            }
        }
    }

    private function readResponse(float $until, ?Meanwhile $meanwhile): Response
    {
        while (($end = strpos($this->received, "\r\n\r\n")) === false) {
            if (strlen($this->received) > self::ANSWER_HEAD_BYTES_MAX) {
                throw new TransportException('the head of the answer has no end', true);
            }
            $this->receive($until, $meanwhile);
        }
        $lines = explode("\r\n", substr($this->received, 0, $end));
        $this->received = substr($this->received, $end + 4);
        if (!preg_match('#^HTTP/1\.[01] (\d{3})#', (string) array_shift($lines), $first)) {
            throw new TransportException('the answer is not HTTP', true);
        }
        $headers = [];
        foreach ($lines as $line) {
            [$name, $value] = explode(':', $line, 2) + [1 => ''];
            $headers[strtolower(trim($name))] = trim($value);
        }
        $status = (int) $first[1];
        return new Response($status, $headers, $this->readBody($status, $headers, $until, $meanwhile));
    }

    /** @param array<string, string> $headers */
    private function readBody(int $status, array $headers, float $until, ?Meanwhile $meanwhile): string
    {
        if ($status < 200 || $status === 204 || $status === 304) {
            return '';
        }
        if (str_contains(strtolower($headers['transfer-encoding'] ?? ''), 'chunked')) {
            return $this->readChunks($until, $meanwhile);
        }
        if (isset($headers['content-length'])) {
            return $this->take((int) $headers['content-length'], $until, $meanwhile);
        }
        while (!feof($this->stream)) {
            $this->receive($until, $meanwhile, true);
        }
        return $this->take(strlen($this->received), $until, $meanwhile);
    }

    private function readChunks(float $until, ?Meanwhile $meanwhile): string
    {
        $body = '';
        do {
            $length = (int) hexdec(explode(';', $this->takeLine($until, $meanwhile))[0]);
            $body .= $this->take($length, $until, $meanwhile);
            // Behind a chunk its line ends; behind the last there may be trailers, up to an empty line.
            $line = $this->takeLine($until, $meanwhile);
        } while ($length > 0);
        while ($line !== '') {
            $line = $this->takeLine($until, $meanwhile);
        }
        return $body;
    }

    private function takeLine(float $until, ?Meanwhile $meanwhile): string
    {
        while (($end = strpos($this->received, "\r\n")) === false) {
            $this->receive($until, $meanwhile);
        }
        $line = substr($this->received, 0, $end);
        $this->received = substr($this->received, $end + 2);
        return $line;
    }

    private function take(int $length, float $until, ?Meanwhile $meanwhile): string
    {
        while (strlen($this->received) < $length) {
            $this->receive($until, $meanwhile);
        }
        $taken = substr($this->received, 0, $length);
        $this->received = substr($this->received, $length);
        return $taken;
    }

    private function receive(float $until, ?Meanwhile $meanwhile, bool $mayEnd = false): void
    {
        // Read first: TLS may hold what select does not see.
        $bytes = @fread($this->stream, self::READ_BYTES);
        if ($bytes !== false && $bytes !== '') {
            $this->received .= $bytes;
            return;
        }
        if (feof($this->stream)) {
            if (!$mayEnd) {
                throw new TransportException('the connection broke before the answer was there', true);
            }
            return;
        }
        $this->sleep($until, $meanwhile, false);
    }

    /** Sleeps until the stream can go on, or something else is to be done. */
    private function sleep(float $until, ?Meanwhile $meanwhile, bool $toWrite): void
    {
        $left = $until - self::now();
        if ($left <= 0) {
            throw new TransportException('no answer in time', true);
        }
        $readable = [$this->stream, ...($meanwhile?->streams() ?? [])];
        $writable = $toWrite ? [$this->stream] : null;
        $none = null;
        $seconds = min($left, max(0.0, $meanwhile?->patience() ?? $left));
        // A signal ends it early, with a warning; whoever caught the signal is asked below.
        @stream_select($readable, $writable, $none, (int) $seconds, (int) (fmod($seconds, 1) * 1e6));
        if ($meanwhile?->proceed() === false && !$this->isAnswering()) {
            throw new HungUp('hung up');
        }
    }

    /** Whether the answer has begun: then it is worth more than hanging up, since the server has done its part. */
    private function isAnswering(): bool
    {
        return $this->received !== '' || $this->isReadable();
    }

    private function isReadable(): bool
    {
        $readable = [$this->stream];
        $none = null;
        return @stream_select($readable, $none, $none, 0) > 0;
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
