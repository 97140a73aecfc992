<?php

/**
 * Receives deliveries behind PHP's own web server, by the PSR-15 handler or by the one without a framework.
 *
 * The environment has FILE, where is written down what came, TOPICS, SECRETS with blanks between them, and PLAIN.
 */

declare(strict_types=1);

use GuzzleHttp\Psr7\HttpFactory;
use GuzzleHttp\Psr7\ServerRequest;
use Linger\Again;
use Linger\Delivery;
use Linger\Receiver;
use Linger\RetryIn;
use Linger\Webhook;
use Linger\WebhookHandler;

require __DIR__ . '/../bootstrap.php';

$file = (string) getenv('FILE');
$handler = static function (Delivery $delivery) use ($file): void {
    $seen = ['topic' => $delivery->topic, 'id' => $delivery->id, 'attempt' => $delivery->attempt,
        'due' => $delivery->due?->format(DATE_RFC3339_EXTENDED), 'lease' => $delivery->lease,
        'webhook_id' => $delivery->webhookId, 'raw' => base64_encode($delivery->raw),
        'body' => is_object($delivery->body) ? $delivery->body::class : $delivery->body];
    file_put_contents($file, json_encode($seen, JSON_THROW_ON_ERROR) . "\n", FILE_APPEND | LOCK_EX);
    match ($delivery->body) {
        'fail' => throw new RuntimeException('no luck'),
        'again' => $delivery->attempt === 1 ? throw new Again('1ms') : null,
        'retry_in' => $delivery->attempt === 1 ? throw new RetryIn(0.001, 'later') : null,
        'gate' => (static function () use ($file): void {
            while (!file_exists("$file.gate")) {
                usleep(20_000);
            }
        })(),
        default => null,
    };
};
$handlers = array_fill_keys(explode(',', (string) getenv('TOPICS')), $handler);
$secrets = (string) getenv('SECRETS');
$secrets = $secrets === Webhook::UNSIGNED ? $secrets : explode(' ', $secrets);

if (getenv('PLAIN')) {
    $receiver = new Receiver($handlers, $secrets);
    $receiver->receive(getallheaders(), (string) file_get_contents('php://input'))->send();
    return;
}

$factory = new HttpFactory();
$response = (new WebhookHandler($handlers, $secrets, $factory, $factory))->handle(ServerRequest::fromGlobals());
http_response_code($response->getStatusCode());
foreach ($response->getHeaders() as $name => $values) {
    header("$name: $values[0]");
}
echo $response->getBody();
