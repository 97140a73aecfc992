<?php

declare(strict_types=1);

namespace Linger;

use Linger\Work\Outcome;

/**
 * Receives deliveries, whatever the framework: calls the handler of the topic and says what to answer.
 */
final class Receiver
{
    /**
     * @param array<string, callable(Delivery): mixed> $handlers by topic. One that returns has finished its job; one
     *                                                           that throws has failed it, see `Again` and `RetryIn`
     * @param string|list<string>                      $secrets  as for `Webhook::verify`; or `Webhook::UNSIGNED`, which
     *                                                           looks at no signature: only where nobody else can call
     */
    public function __construct(private readonly array $handlers, private readonly string|array $secrets)
    {
        if ($secrets !== Webhook::UNSIGNED) {
            Webhook::check($secrets);
        }
    }

    /**
     * @param array<string, string|array<string>> $headers of the request, in any case
     * @param string                              $body    the very bytes of the request
     */
    public function receive(array $headers, string $body): Answer
    {
        try {
            $delivery = $this->secrets === Webhook::UNSIGNED
                ? Webhook::trust($headers, $body)
                : Webhook::verify($this->secrets, $headers, $body);
        } catch (WebhookException $why) {
            return new Answer(401, ['error' => Outcome::clean($why->getMessage())]);
        }
        $handler = $this->handlers[$delivery->topic] ?? null;
        if ($handler === null) {
            $error = Outcome::clean("there is no handler for the topic `$delivery->topic`");
            return new Answer(404, ['error' => $error]);
        }
        return self::answer(Outcome::of($handler, $delivery));
    }

    /** 200 for a failure, too: it was the job's fault and not this server's, whose breaker stays out of it. */
    private static function answer(Outcome $outcome): Answer
    {
        if ($outcome->done) {
            return new Answer(204);
        }
        $kind = $outcome->again ? 'again' : 'failed';
        $retryIn = is_numeric($outcome->retryIn) ? "{$outcome->retryIn}s" : $outcome->retryIn;
        return new Answer(200, Fields::given(['outcome' => $kind, 'error' => $outcome->error, 'retry_in' => $retryIn]));
    }
}
