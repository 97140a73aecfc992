<?php

declare(strict_types=1);

namespace Linger;

/** Checks that a delivery comes from your server, as Standard Webhooks has it. */
final class Webhook
{
    public const TOLERANCE_SECONDS = 300;
    /** In place of secrets, said aloud: a secret that is missing by mistake must not let everybody in. */
    public const UNSIGNED = 'unsigned';

    private const SECRET = 'whsec_';
    private const PUBLIC_KEY = 'whpk_';

    /**
     * Checks a delivery's signature and age, and gives back the job.
     *
     * @param string|list<string>                 $secrets `whsec_…`, or `whpk_…` for ed25519; several while they are
     *                                                     rotated: one that fits is enough
     * @param array<string, string|array<string>> $headers of the request, in any case
     * @param string                              $body    the very bytes of the request
     * @param int|null                            $now     Unix time in seconds, if not that of the system
     *
     * @throws WebhookException if it is not signed by one of the secrets, or too old
     */
    public static function verify(string|array $secrets, array $headers, string $body, ?int $now = null): Delivery
    {
        self::check($secrets);
        $headers = self::lower($headers);
        $id = self::need($headers, 'webhook-id');
        $timestamp = self::need($headers, 'webhook-timestamp');
        $signatures = self::need($headers, 'webhook-signature');
        self::checkAge($timestamp, $now ?? time());
        $message = "$id.$timestamp.$body";
        foreach ((array) $secrets as $secret) {
            foreach (explode(' ', $signatures) as $signature) {
                if (self::fits($secret, $signature, $message)) {
                    return self::read($headers, $body);
                }
            }
        }
        throw new WebhookException('the signature fits none of the secrets');
    }

    /**
     * Says at once that a secret is none, rather than when a delivery comes.
     *
     * @param string|list<string> $secrets
     *
     * @internal
     */
    public static function check(#[\SensitiveParameter] string|array $secrets): void
    {
        foreach ((array) $secrets as $secret) {
            self::key($secret, self::version($secret) === 'v1' ? self::SECRET : self::PUBLIC_KEY);
        }
    }

    /**
     * Takes a delivery without looking at its signature: only where nobody else can call.
     *
     * @param array<string, string|array<string>> $headers
     *
     * @throws WebhookException if it is no delivery of Linger
     */
    public static function trust(array $headers, string $body): Delivery
    {
        return self::read(self::lower($headers), $body);
    }

    private static function fits(#[\SensitiveParameter] string $secret, string $signature, string $message): bool
    {
        [$version, $code] = explode(',', $signature, 2) + [1 => ''];
        $given = (string) base64_decode($code, true);
        return match (self::version($secret)) {
            'v1' => $version === 'v1'
                && hash_equals(hash_hmac('sha256', $message, self::key($secret, self::SECRET), true), $given),
            'v1a' => $version === 'v1a'
                && strlen($given) === SODIUM_CRYPTO_SIGN_BYTES
                && sodium_crypto_sign_verify_detached($given, $message, self::key($secret, self::PUBLIC_KEY)),
        };
    }

    /** Which signatures a secret is for. */
    private static function version(#[\SensitiveParameter] string $secret): string
    {
        if (str_starts_with($secret, self::SECRET)) {
            return 'v1';
        }
        if (!str_starts_with($secret, self::PUBLIC_KEY)) {
            throw new \InvalidArgumentException('a secret begins neither with whsec_ nor with whpk_');
        }
        return extension_loaded('sodium') ? 'v1a' : throw new \LogicException('a key whpk_… needs ext-sodium');
    }

    private static function key(#[\SensitiveParameter] string $secret, string $prefix): string
    {
        $text = substr($secret, strlen($prefix));
        // PHP passes over spaces and missing padding even if it is to be strict.
        $key = (string) base64_decode($text, true);
        // With an empty key anybody could sign.
        if ($key === '' || base64_encode($key) !== $text) {
            throw new \InvalidArgumentException("a secret is not $prefix and base64");
        }
        return $key;
    }

    private static function checkAge(string $timestamp, int $now): void
    {
        if (!ctype_digit($timestamp) || abs($now - (int) $timestamp) > self::TOLERANCE_SECONDS) {
            throw new WebhookException("the timestamp `$timestamp` is not within five minutes of now");
        }
    }

    /** @param array<string, string> $headers */
    private static function read(array $headers, string $body): Delivery
    {
        $due = $headers['linger-due'] ?? null;
        return new Delivery(
            rawurldecode(self::need($headers, 'linger-topic')),
            rawurldecode(self::need($headers, 'linger-job')),
            (int) ($headers['linger-attempt'] ?? 0),
            $due === null ? null : new \DateTimeImmutable($due),
            $headers['linger-lease'] ?? null,
            self::need($headers, 'webhook-id'),
            $body,
            $headers['content-type'] ?? '',
        );
    }

    /** @param array<string, string> $headers */
    private static function need(array $headers, string $name): string
    {
        return $headers[$name] ?? throw new WebhookException("the header $name is missing");
    }

    /**
     * @param  array<string, string|array<string>> $headers
     * @return array<string, string>
     */
    private static function lower(array $headers): array
    {
        $first = static fn (string|array $value) => is_array($value) ? (string) reset($value) : $value;
        return array_map($first, array_change_key_case($headers));
    }
}
