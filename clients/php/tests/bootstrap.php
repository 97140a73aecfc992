<?php

declare(strict_types=1);

require __DIR__ . '/../vendor/autoload.php';

// Libraries that the tests have from the system, where it brings autoloaders of its own.
foreach (['GuzzleHttp/autoload.php', 'Nyholm/Psr7/autoload.php'] as $library) {
    if (stream_resolve_include_path($library) !== false) {
        require_once $library;
    }
}
