<?php

declare(strict_types=1);

namespace Linger;

/** A job that was pushed here. */
final class Delivery
{
    /** What JSON held, objects as arrays; text; or `Bytes`. Null if there is none. */
    public readonly mixed $body;

    /**
     * @param string      $webhookId the same for every attempt at this occurrence: drop what you know
     * @param string|null $lease     for jobs with `confirm: "finish"`
     * @param string      $raw       the body as it came
     *
     * @internal
     */
    public function __construct(
        public readonly string $topic,
        public readonly string $id,
        public readonly int $attempt,
        public readonly ?\DateTimeImmutable $due,
        public readonly ?string $lease,
        public readonly string $webhookId,
        public readonly string $raw,
        string $contentType,
    ) {
        $type = strtolower(trim(explode(';', $contentType)[0]));
        $this->body = match (true) {
            $raw === '' => null,
            $type === 'application/json' || str_ends_with($type, '+json') => self::decode($raw),
            $type === 'application/octet-stream' => new Bytes($raw),
            default => $raw,
        };
    }

    private static function decode(string $raw): mixed
    {
        $value = json_decode($raw, true, 512, JSON_BIGINT_AS_STRING);
        return json_last_error() === JSON_ERROR_NONE ? $value : $raw;
    }
}
