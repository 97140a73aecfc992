<?php

declare(strict_types=1);

namespace Linger;

/**
 * Writes the fields of a request as JSON.
 *
 * @internal
 */
final class Fields
{
    private const FLAGS = JSON_THROW_ON_ERROR | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES
        | JSON_PRESERVE_ZERO_FRACTION;

    /** @param array<string, mixed> $fields */
    public static function json(array $fields): string
    {
        $members = [];
        foreach ($fields as $name => $value) {
            $members[] = $name === 'body' ? self::body($value) : self::member($name, self::plain($value));
        }
        return '{' . implode(',', $members) . '}';
    }

    /**
     * Without those that were not given.
     *
     * @param  array<string, mixed> $fields
     * @return array<string, mixed>
     */
    public static function given(array $fields): array
    {
        return array_filter($fields, static fn ($value) => $value !== null);
    }

    /** A moment as the server takes it. */
    public static function moment(\DateTimeInterface|int|string $moment): int|string
    {
        return $moment instanceof \DateTimeInterface ? $moment->format('Y-m-d\TH:i:s.vP') : $moment;
    }

    private static function body(mixed $body): string
    {
        return match (true) {
            $body instanceof Json => '"body":' . $body->text,
            $body instanceof Bytes => self::member('body_base64', base64_encode($body->bytes)),
            default => self::member('body', $body),
        };
    }

    private static function member(string $name, mixed $value): string
    {
        try {
            return json_encode($name, self::FLAGS) . ':' . json_encode($value, self::FLAGS);
        } catch (\JsonException $why) {
            $message = "$name cannot be written as JSON ({$why->getMessage()}); wrap bytes in Linger\\Bytes";
            throw LingerException::of(Code::Invalid, $message, $name, previous: $why);
        }
    }

    private static function plain(mixed $value): mixed
    {
        return match (true) {
            is_array($value) => array_map(self::plain(...), $value),
            $value instanceof \DateTimeInterface => self::moment($value),
            $value instanceof \DateInterval => Duration::wire($value),
            default => $value,
        };
    }
}
