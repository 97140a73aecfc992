<?php

declare(strict_types=1);

namespace Linger;

/**
 * A job as the server tells of it.
 *
 * @property-read mixed $body What JSON held, objects as arrays; text; or `Bytes`. Null if there is none, or it was not
 *                            asked for. Read when it is asked for, which throws `Exception\Invalid` if PHP cannot hold
 *                            it: such as text with half a surrogate pair, or more than 512 levels
 */
final class Job
{
    public readonly string $topic;
    public readonly string $id;
    /** `delayed`, `ready`, `reserved`, `retry`, `held`, `finished` or `dead`. */
    public readonly string $state;
    /** Which attempt this is; 0 before the first. */
    public readonly int $attempt;
    public readonly int $version;
    public readonly int $priority;
    public readonly ?\DateTimeImmutable $due;
    /** With what a job that was popped is finished, failed, released or touched. */
    public readonly ?string $lease;
    public readonly ?\DateTimeImmutable $reservedUntil;
    public readonly ?string $lastError;
    /** @var array<string, mixed> all that the server told, as it told it, but for a body of JSON */
    public readonly array $fields;
    /** The text of a body of JSON, as it came. Null if there is none. */
    public readonly ?string $rawBody;
    /** @var array{}|array{mixed} the body, once it was read */
    private array $read = [];

    /**
     * @param array<string, mixed> $fields    what the server told, `body` as `Envelope` reads it
     * @param float                $leaseLeft how many seconds its lease lasts from when it was popped, by the server's
     *                                        clock and on the safe side; 0 if it was not popped
     *
     * @internal
     */
    public function __construct(array $fields, public readonly float $leaseLeft = 0.0)
    {
        $this->topic = $fields['topic'] ?? '';
        $this->id = $fields['id'] ?? '';
        $this->state = $fields['state'] ?? '';
        $this->attempt = $fields['attempt'] ?? 0;
        $this->version = $fields['version'] ?? 0;
        $this->priority = $fields['priority'] ?? 0;
        $this->due = self::moment($fields['due'] ?? null);
        $this->lease = $fields['lease'] ?? null;
        $this->reservedUntil = self::moment($fields['reserved_until'] ?? null);
        $this->lastError = $fields['last_error'] ?? null;
        $this->rawBody = $fields['body'] ?? null;
        unset($fields['body']);
        $this->fields = $fields;
    }

    public function __get(string $name): mixed
    {
        if ($name !== 'body') {
            throw new \LogicException("a job has no `$name`");
        }
        return ($this->read ?: $this->read = [$this->readBody()])[0];
    }

    public function __isset(string $name): bool
    {
        return $name === 'body' && $this->__get($name) !== null;
    }

    private function readBody(): mixed
    {
        if (isset($this->fields['body_base64'])) {
            return new Bytes((string) base64_decode($this->fields['body_base64'], true));
        }
        if ($this->rawBody === null) {
            return null;
        }
        try {
            // A number that PHP cannot hold becomes text, which loses nothing of it.
            return json_decode($this->rawBody, true, 512, JSON_BIGINT_AS_STRING | JSON_THROW_ON_ERROR);
        } catch (\JsonException $why) {
            $message = "PHP cannot read the body as JSON ({$why->getMessage()}); its text is in rawBody";
            throw LingerException::of(Code::Invalid, $message, 'body', previous: $why);
        }
    }

    private static function moment(?string $text): ?\DateTimeImmutable
    {
        return $text === null ? null : new \DateTimeImmutable($text);
    }
}
