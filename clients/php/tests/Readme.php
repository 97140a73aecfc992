<?php

declare(strict_types=1);

namespace Linger\Tests;

/** What the README shows. */
final class Readme
{
    /** The block of code below this sentence, or its beginning. */
    public static function block(string $after, string $language = 'php'): string
    {
        $text = (string) file_get_contents(Toolbox::root() . '/README.md');
        $rest = substr($text, (int) strpos($text, $after));
        if (!str_contains($text, $after) || !preg_match("/^```$language\n(.*?)^```$/ms", $rest, $block)) {
            throw new \RuntimeException("the README has no block of $language below `$after`");
        }
        return $block[1];
    }

    /** Puts it where its `require 'vendor/autoload.php'` finds what it needs; answers the path. */
    public static function write(string $name, string $code): string
    {
        $folder = Temp::folder('readme');
        mkdir("$folder/vendor");
        $bootstrap = var_export(__DIR__ . '/bootstrap.php', true);
        file_put_contents("$folder/vendor/autoload.php", "<?php require $bootstrap;");
        file_put_contents("$folder/$name", $code);
        return "$folder/$name";
    }
}
