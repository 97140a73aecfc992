<?php

declare(strict_types=1);

namespace Linger;

/** What to answer to a delivery. */
final class Answer
{
    /** JSON, or empty. */
    public readonly string $body;

    /**
     * @param array<string, mixed>|null $fields
     *
     * @internal
     */
    public function __construct(public readonly int $status, ?array $fields = null)
    {
        $this->body = $fields === null ? '' : Fields::json($fields);
    }

    /** Sends it, in plain PHP without a framework. */
    public function send(): void
    {
        http_response_code($this->status);
        if ($this->body !== '') {
            header('content-type: application/json');
            echo $this->body;
        }
    }
}
