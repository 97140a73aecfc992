<?php

declare(strict_types=1);

namespace Linger;

use Psr\Http\Message\ResponseFactoryInterface;
use Psr\Http\Message\ResponseInterface;
use Psr\Http\Message\ServerRequestInterface;
use Psr\Http\Message\StreamFactoryInterface;
use Psr\Http\Server\RequestHandlerInterface;

/** A PSR-15 request handler that receives deliveries. */
final class WebhookHandler implements RequestHandlerInterface
{
    private readonly Receiver $receiver;

    /**
     * @param array<string, callable(Delivery): mixed> $handlers as for `Receiver`
     * @param string|list<string>                      $secrets  as for `Receiver`
     */
    public function __construct(
        array $handlers,
        string|array $secrets,
        private readonly ResponseFactoryInterface $responses,
        private readonly StreamFactoryInterface $streams,
    ) {
        $this->receiver = new Receiver($handlers, $secrets);
    }

    public function handle(ServerRequestInterface $request): ResponseInterface
    {
        $answer = $this->receiver->receive($request->getHeaders(), (string) $request->getBody());
        $response = $this->responses->createResponse($answer->status);
        return $answer->body === '' ? $response : $response
            ->withHeader('content-type', 'application/json')
            ->withBody($this->streams->createStream($answer->body));
    }
}
