<?php

declare(strict_types=1);

namespace Linger\Http;

use Psr\Http\Client\ClientExceptionInterface;
use Psr\Http\Client\ClientInterface;
use Psr\Http\Message\RequestFactoryInterface;
use Psr\Http\Message\StreamFactoryInterface;

/**
 * Calls by a PSR-18 client of yours, with its settings for time-outs, proxies and TLS.
 *
 * PSR-18 does not say whether a request that failed was sent, so a call that must not be made twice is not made
 * again, even if there was no connection. Nor can a call be given up, so a worker waits for jobs by short polls.
 */
final class Psr18Transport implements Transport
{
    public function __construct(
        private readonly ClientInterface $client,
        private readonly RequestFactoryInterface $requests,
        private readonly StreamFactoryInterface $streams,
    ) {
    }

    public function send(Request $request, ?Meanwhile $meanwhile = null): Response
    {
        $message = $this->requests->createRequest($request->method, $request->url);
        foreach ($request->headers as $name => $value) {
            $message = $message->withHeader($name, $value);
        }
        if ($request->body !== '') {
            $message = $message->withBody($this->streams->createStream($request->body));
        }
        try {
            $answer = $this->client->sendRequest($message);
            $headers = array_map(static fn (array $values) => implode(', ', $values), $answer->getHeaders());
            $headers = array_change_key_case($headers);
            return new Response($answer->getStatusCode(), $headers, (string) $answer->getBody());
        } catch (ClientExceptionInterface | \RuntimeException $why) {
            throw new TransportException($why->getMessage(), true, $why);
        }
    }
}
