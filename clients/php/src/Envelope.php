<?php

declare(strict_types=1);

namespace Linger;

/**
 * Reads answers that tell of jobs, without reading the jobs' bodies: PHP cannot hold all that JSON can, and one body
 * must not take the others with it.
 *
 * @internal
 */
final class Envelope
{
    private const FLAGS = JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE;
    private const SPACE = " \t\r\n";

    /** What JSON holds; but each member `body` is the text of its value. Null if it is not JSON. */
    public static function decode(string $text): mixed
    {
        $envelope = '';
        $copied = $at = 0;
        while (($at += strcspn($text, '"', $at)) < strlen($text)) {
            $name = $at;
            $at = self::endOfString($text, $name);
            $colon = $at + strspn($text, self::SPACE, $at);
            if (substr($text, $name, $at - $name) !== '"body"' || substr($text, $colon, 1) !== ':') {
                continue;
            }
            $value = $colon + 1 + strspn($text, self::SPACE, $colon + 1);
            $at = self::endOfValue($text, $value);
            $body = substr($text, $value, $at - $value);
            $envelope .= substr($text, $copied, $value - $copied) . json_encode($body, self::FLAGS);
            $copied = $at;
        }
        return json_decode($envelope . substr($text, $copied), true, 512, JSON_BIGINT_AS_STRING);
    }

    private static function endOfValue(string $text, int $at): int
    {
        $depth = 0;
        do {
            $at += $depth === 0 ? 0 : strcspn($text, '"{}[]', $at);
            $first = substr($text, $at, 1);
            if ($first === '"') {
                $at = self::endOfString($text, $at);
            } elseif ($first !== '' && str_contains('{}[]', $first)) {
                $depth += $first === '{' || $first === '[' ? 1 : -1;
                $at++;
            } else {
                $at += strcspn($text, ',}]' . self::SPACE, $at);
            }
        } while ($depth > 0 && $at < strlen($text));
        return $at;
    }

    /** @param int $at where its first quote is */
    private static function endOfString(string $text, int $at): int
    {
        $at++;
        while (($at += strcspn($text, '"\\', $at)) < strlen($text) && $text[$at] === '\\') {
            $at += 2;
        }
        return min($at + 1, strlen($text));
    }
}
