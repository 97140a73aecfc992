<?php

declare(strict_types=1);

namespace Linger;

/**
 * A call that failed. Match on the class, or on `$reason`; the message is for people.
 */
class LingerException extends \RuntimeException
{
    /**
     * @param Code        $reason      the server's code
     * @param string|null $field       which field is at fault, if one is
     * @param int|null    $status      the HTTP status; null if there was no answer
     * @param bool        $nothingDone whether the call certainly changed nothing
     */
    final public function __construct(
        public readonly Code $reason,
        string $message,
        public readonly ?string $field = null,
        public readonly ?int $status = null,
        public readonly bool $nothingDone = true,
        ?\Throwable $previous = null,
    ) {
        parent::__construct($message, $status ?? 0, $previous);
    }

    /** The exception of the class that belongs to its code. */
    public static function of(
        Code $reason,
        string $message,
        ?string $field = null,
        ?int $status = null,
        bool $nothingDone = true,
        ?\Throwable $previous = null,
    ): self {
        $class = $reason->exception();
        return new $class($reason, $message, $field, $status, $nothingDone, $previous);
    }

    /**
     * From an error as the API writes it.
     *
     * @param array<string, mixed> $error
     */
    public static function fromError(array $error, ?int $status = null): self
    {
        $reason = Code::tryFrom((string) ($error['code'] ?? '')) ?? Code::Unknown;
        $message = (string) ($error['message'] ?? 'the server gave no reason');
        // A server on Redis may not know itself what became of a call.
        $nothingDone = $reason !== Code::StorageFailed && $reason !== Code::Unavailable;
        return self::of($reason, $message, $error['field'] ?? null, $status, $nothingDone);
    }
}
