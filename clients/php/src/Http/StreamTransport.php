<?php

declare(strict_types=1);

namespace Linger\Http;

/**
 * HTTP/1.1 over PHP's own streams. Keeps one connection to each server for the next call.
 */
final class StreamTransport implements Transport
{
    /** Shorter than servers and the boxes in between keep silent connections. */
    private const IDLE_SECONDS_MAX = 60.0;

    /** @var array<string, Connection> those that wait for the next call, by origin */
    private array $idle = [];

    /** @param string|null $ca a file in PEM with the authorities to trust, in place of those of the system */
    public function __construct(private readonly ?string $ca = null)
    {
    }

    public function __clone()
    {
        $this->idle = [];
    }

    public function send(Request $request, ?Meanwhile $meanwhile = null): Response
    {
        $origin = self::origin($request->url);
        $connection = $this->takeIdle($origin) ?? Connection::open($origin, $request->connectTimeout, $this->ca);
        try {
            $response = $connection->exchange($request, $meanwhile);
        } catch (\Throwable $why) {
            $connection->hangUp();
            throw $why;
        }
        if ($connection->isReusable($response)) {
            $this->idle[$origin] = $connection;
        }
        return $response;
    }

    /** Closes the connections that are kept. To be called before a fork. */
    public function disconnect(): void
    {
        $this->idle = [];
    }

    private function takeIdle(string $origin): ?Connection
    {
        $connection = $this->idle[$origin] ?? null;
        unset($this->idle[$origin]);
        return $connection?->isFresh(self::IDLE_SECONDS_MAX) ? $connection : null;
    }

    private static function origin(string $url): string
    {
        $parts = parse_url($url);
        $scheme = strtolower($parts['scheme'] ?? '');
        if (!isset($parts['host']) || ($scheme !== 'http' && $scheme !== 'https')) {
            throw new TransportException("`$url` is no address; give one like `http://127.0.0.1:7300`", false);
        }
        $port = $parts['port'] ?? ($scheme === 'https' ? 443 : 80);
        return ($scheme === 'https' ? 'tls' : 'tcp') . "://{$parts['host']}:$port";
    }
}
