<?php

declare(strict_types=1);

namespace Linger\Tests;

/** Where the tests find what they need. */
final class Toolbox
{
    public static function linger(): string
    {
        return getenv('LINGER') ?: throw new \RuntimeException('set LINGER to the path of the linger binary');
    }

    public static function root(): string
    {
        return dirname(__DIR__);
    }

    /**
     * What PHP programs of the tests are started with: the interfaces of PSR-15 may come from an extension.
     *
     * @return list<string>
     */
    public static function phpOptions(): array
    {
        $extension = (string) getenv('PSR_EXTENSION');
        return $extension === '' ? [] : ['-d', "extension=$extension"];
    }

    public static function freePort(): int
    {
        $socket = stream_socket_server('tcp://127.0.0.1:0');
        return (int) substr(strrchr((string) stream_socket_get_name($socket, false), ':'), 1);
    }
}
