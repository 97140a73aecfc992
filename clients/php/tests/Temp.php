<?php

declare(strict_types=1);

namespace Linger\Tests;

/** Files and folders that are gone when the tests are over. */
final class Temp
{
    private static ?string $root = null;
    private static int $count = 0;

    /** The path of a file that is not there yet. */
    public static function file(string $name): string
    {
        if (self::$root === null) {
            self::$root = sys_get_temp_dir() . '/linger-php-' . bin2hex(random_bytes(6));
            mkdir(self::$root);
            $owner = getmypid();
            register_shutdown_function(static function () use ($owner): void {
                if (getmypid() === $owner) {
                    exec('rm -rf ' . escapeshellarg((string) self::$root));
                }
            });
        }
        return self::$root . '/' . ++self::$count . "-$name";
    }

    public static function folder(string $name): string
    {
        $folder = self::file($name);
        mkdir($folder);
        return $folder;
    }
}
