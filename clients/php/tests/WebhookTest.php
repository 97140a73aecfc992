<?php

declare(strict_types=1);

namespace Linger\Tests;

use Linger\Again;
use Linger\Bytes;
use Linger\Delivery;
use Linger\Json;
use Linger\NewJob;
use Linger\Receiver;
use Linger\RetryIn;
use Linger\Webhook;
use Linger\WebhookException;

final class WebhookTest extends ServerTestCase
{
    private const SECRET = 'whsec_dGhlIHNlY3JldCB0aGF0IHRoZSB0ZXN0cyBoYXZl';
    private const OTHER = 'whsec_YW5vdGhlciBvbmUsIGFsc28gMjQgYnl0ZXMgbG9uZw==';
    private const NOW = 1_790_000_000;
    private const BODY = '{"order": 1001}';

    public function testAGoodSignatureGivesBackTheJob(): void
    {
        $delivery = Webhook::verify(self::SECRET, $this->headers(), self::BODY, self::NOW + 299);
        $this->assertSame('order/close', $delivery->topic);
        $this->assertSame('1001 %', $delivery->id);
        $this->assertSame(2, $delivery->attempt);
        $this->assertEquals(new \DateTimeImmutable('2026-09-21T14:13:20Z'), $delivery->due);
        $this->assertSame('8c1f', $delivery->lease);
        $this->assertSame(['order' => 1001], $delivery->body);
        $this->assertSame(self::BODY, $delivery->raw);
        $this->assertSame('lg_4711_0', $delivery->webhookId);
    }

    public function testHeadersMayComeInAnyCaseAndAsLists(): void
    {
        $headers = [];
        foreach ($this->headers() as $name => $value) {
            $headers[ucwords($name, '-')] = [$value];
        }
        $this->assertSame('1001 %', Webhook::verify([self::SECRET], $headers, self::BODY, self::NOW)->id);
    }

    public function testTheKnownAnswerOfStandardWebhooks(): void
    {
        $headers = ['webhook-id' => 'msg_p5jXN8AQM9LWM0D4loKWxJek', 'webhook-timestamp' => '1614265330',
            'webhook-signature' => 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
            'linger-topic' => 't', 'linger-job' => '1', 'content-type' => 'application/json'];
        $secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
        $delivery = Webhook::verify($secret, $headers, '{"test": 2432232314}', 1614265330);
        $this->assertSame(['test' => 2432232314], $delivery->body);
    }

    /** @return iterable<string, array{array<string, string|null>, string, int}> */
    public function bad(): iterable
    {
        yield 'another secret' => [[], self::BODY, self::NOW, [self::OTHER]];
        yield 'no secret' => [[], self::BODY, self::NOW, []];
        yield 'a body that was tampered with' => [[], '{"order": 1002}', self::NOW];
        yield 'another id' => [['webhook-id' => 'lg_1'], self::BODY, self::NOW];
        yield 'another time' => [['webhook-timestamp' => (string) (self::NOW + 1)], self::BODY, self::NOW];
        yield 'too old' => [[], self::BODY, self::NOW + 301];
        yield 'from the future' => [[], self::BODY, self::NOW - 301];
        yield 'no time at all' => [['webhook-timestamp' => 'soon'], self::BODY, self::NOW];
        yield 'an empty signature' => [['webhook-signature' => ''], self::BODY, self::NOW];
        yield 'a version without a signature' => [['webhook-signature' => 'v1,'], self::BODY, self::NOW];
        yield 'a version that is not ours' => [['webhook-signature' => 'v2,AAAA'], self::BODY, self::NOW];
        foreach (['webhook-id', 'webhook-timestamp', 'webhook-signature', 'linger-topic', 'linger-job'] as $name) {
            yield "without $name" => [[$name => null], self::BODY, self::NOW];
        }
    }

    /**
     * @dataProvider bad
     * @param array<string, string|null> $changes
     * @param list<string>               $secrets
     */
    public function testABadDeliveryIsRefused(
        array $changes,
        string $body,
        int $now,
        array $secrets = [self::SECRET],
    ): void {
        $headers = array_filter($changes + $this->headers(), static fn (?string $value) => $value !== null);
        $this->expectException(WebhookException::class);
        Webhook::verify($secrets, $headers, $body, $now);
    }

    public function testWhileSecretsAreRotatedOneThatFitsIsEnough(): void
    {
        $both = $this->headers();
        $both['webhook-signature'] = $this->sign(self::OTHER) . ' v1a,AAAA ' . $this->sign(self::SECRET);
        $this->assertSame(2, Webhook::verify(self::SECRET, $both, self::BODY, self::NOW)->attempt);
        $this->assertSame(2, Webhook::verify(self::OTHER, $both, self::BODY, self::NOW)->attempt);
        $secrets = [self::OTHER, self::SECRET];
        $this->assertSame(2, Webhook::verify($secrets, $this->headers(), self::BODY, self::NOW)->attempt);
    }

    public function testEd25519IsVerifiedByItsPublicKey(): void
    {
        $pair = sodium_crypto_sign_keypair();
        $message = 'lg_4711_0.' . self::NOW . '.' . self::BODY;
        $signature = sodium_crypto_sign_detached($message, sodium_crypto_sign_secretkey($pair));
        $headers = ['webhook-signature' => 'v1a,' . base64_encode($signature)] + $this->headers();
        $key = 'whpk_' . base64_encode(sodium_crypto_sign_publickey($pair));
        $this->assertSame(2, Webhook::verify($key, $headers, self::BODY, self::NOW)->attempt);
        $this->expectException(WebhookException::class);
        Webhook::verify($key, $headers, self::BODY . ' ', self::NOW);
    }

    /** A public key is no secret: signing with it as one must not do. */
    public function testAPublicKeyIsNoSecret(): void
    {
        $public = base64_encode(random_bytes(32));
        $headers = ['webhook-signature' => $this->sign("whsec_$public")] + $this->headers();
        $this->expectException(WebhookException::class);
        Webhook::verify("whpk_$public", $headers, self::BODY, self::NOW);
    }

    public function testASecretThatIsNoneIsAMistakeOfTheProgram(): void
    {
        foreach (['', 'whsec_', 'whsec_!', 'whsec_====', 'whsec_YWJj YWJj', 'whsec_YWI', 'secret'] as $secret) {
            foreach ([$secret, [self::SECRET, $secret]] as $secrets) {
                $verify = fn () => Webhook::verify($secrets, $this->headers(), self::BODY, self::NOW);
                foreach ([$verify, fn () => new Receiver([], $secrets)] as $use) {
                    try {
                        $use();
                    } catch (\InvalidArgumentException $mistake) {
                        $this->assertStringContainsString('a secret', $mistake->getMessage());
                        continue;
                    }
                    $this->fail("`$secret` was taken");
                }
            }
        }
    }

    /** @return iterable<string, array{?\Throwable, int, string}> */
    public function endings(): iterable
    {
        yield 'returns' => [null, 204, ''];
        yield 'again' => [new Again(), 200, '{"outcome":"again"}'];
        yield 'again after' => [new Again('30s'), 200, '{"outcome":"again","retry_in":"30s"}'];
        yield 'retry in' => [new RetryIn(30, 'no'), 200, '{"outcome":"failed","error":"no","retry_in":"30s"}'];
        yield 'throws' => [new \LogicException('no'), 200, '{"outcome":"failed","error":"no"}'];
        $long = str_repeat('ä', 4096);
        yield 'says a lot' => [new \LogicException($long . 'ä'), 200, "{\"outcome\":\"failed\",\"error\":\"$long\"}"];
        yield 'throws an error' => [new \TypeError(), 200, '{"outcome":"failed","error":"TypeError"}'];
    }

    /** @dataProvider endings */
    public function testWhatIsAnswered(?\Throwable $ending, int $status, string $body): void
    {
        $handler = static fn (Delivery $delivery) => $ending === null ? 'anything' : throw $ending;
        $answer = (new Receiver(['order/close' => $handler], Webhook::UNSIGNED))->receive($this->headers(), self::BODY);
        $this->assertSame([$status, $body], [$answer->status, $answer->body]);
    }

    public function testWithoutAHandlerItIs404AndWithoutASignature401(): void
    {
        $this->assertSame(404, (new Receiver([], Webhook::UNSIGNED))->receive($this->headers(), self::BODY)->status);
        $this->assertSame(401, (new Receiver([], self::SECRET))->receive($this->headers(), self::BODY)->status, 'old');
        $this->assertSame(401, (new Receiver([], []))->receive($this->headers(), self::BODY)->status);
        $this->assertSame(401, (new Receiver([], Webhook::UNSIGNED))->receive([], self::BODY)->status);
    }

    /** @return iterable<string, array{array<string, string>}> */
    public function frameworks(): iterable
    {
        yield 'PSR-15' => [[]];
        yield 'plain PHP' => [['PLAIN' => '1']];
    }

    /**
     * @dataProvider frameworks
     * @param array<string, string> $environment
     */
    public function testARealPushIsVerifiedAndAnswered(array $environment): void
    {
        $topic = $this->newTopic() . '/ü';
        $secret = $this->client->call('POST', '/v1/secrets', ['topic' => $topic])['secret'];
        $application = new Application([$topic], self::OTHER . " $secret", $environment);
        $this->client->configure($topic, ['target' => "$application->url/jobs", 'retry' => ['ladder' => ['1h']]]);
        $bodies = ['json' => new Json('{"a": 1.10}'), 'bytes' => new Bytes("\x00\xff"), 'text' => 'a "text"',
            'again' => 'again', 'retry_in' => 'retry_in'];
        foreach ($bodies as $id => $body) {
            $this->client->add(new NewJob($topic, $body, id: $id));
        }
        $this->client->add(new NewJob($topic, 'fail', id: 'fail'));
        array_map(fn (string $id) => $this->waitUntilGone($topic, $id), array_keys($bodies));
        Poll::until(fn () => $this->client->get($topic, 'fail')->state === 'retry', 'it has failed');
        $this->assertSame('no luck', $this->client->get($topic, 'fail')->lastError);

        $came = array_column($application->deliveries(), null, 'id');
        $this->assertSame([$topic, 1], [$came['json']['topic'], $came['json']['attempt']]);
        $this->assertSame(['a' => 1.1], $came['json']['body']);
        $this->assertSame('{"a": 1.10}', base64_decode($came['json']['raw']), 'byte for byte');
        $this->assertSame("\x00\xff", base64_decode($came['bytes']['raw']));
        $this->assertSame(Bytes::class, $came['bytes']['body']);
        $this->assertSame('a "text"', $came['text']['body']);
        $this->assertSame([2, 2], [$came['again']['attempt'], $came['retry_in']['attempt']]);
        $this->assertCount(8, $application->deliveries());
    }

    public function testARealPushSignedByEd25519IsVerified(): void
    {
        $topic = $this->newTopic();
        $secret = ['topic' => $topic, 'kind' => 'ed25519'];
        $application = new Application([$topic], $this->client->call('POST', '/v1/secrets', $secret)['public_key']);
        $this->client->add(new NewJob($topic, 'x', id: '1', target: $application->url));
        $this->waitUntilGone($topic, '1');
        $this->assertCount(1, $application->deliveries());
    }

    public function testARealPushWithAWrongSignatureOrWithoutAHandlerIsTurnedAway(): void
    {
        $topic = $this->newTopic();
        $application = new Application([$topic], self::SECRET);
        $this->client->call('POST', '/v1/secrets', ['topic' => $topic, 'secret' => self::OTHER]);
        $this->client->call('POST', '/v1/secrets', ['topic' => "$topic.x", 'secret' => self::SECRET]);
        foreach (["$topic" => '401', "$topic.x" => '404'] as $to => $status) {
            $retry = ['ladder' => ['1h']];
            $this->client->add(new NewJob($to, 'x', id: '1', target: $application->url, retry: $retry));
            Poll::until(fn () => $this->client->get($to, '1')->state === 'retry', 'it was turned away');
            $this->assertStringContainsString($status, (string) $this->client->get($to, '1')->lastError);
        }
        $this->assertSame([], $application->deliveries());
    }

    /** @return array<string, string> */
    private function headers(): array
    {
        return ['webhook-id' => 'lg_4711_0', 'webhook-timestamp' => (string) self::NOW,
            'webhook-signature' => $this->sign(self::SECRET), 'content-type' => 'application/json; charset=utf-8',
            'linger-topic' => 'order%2Fclose', 'linger-job' => '1001%20%25', 'linger-attempt' => '2',
            'linger-due' => '2026-09-21T14:13:20.000Z', 'linger-lease' => '8c1f'];
    }

    private function sign(string $secret): string
    {
        $key = base64_decode(substr($secret, strlen('whsec_')));
        $message = 'lg_4711_0.' . self::NOW . '.' . self::BODY;
        return 'v1,' . base64_encode(hash_hmac('sha256', $message, $key, true));
    }
}
