<?php

declare(strict_types=1);

// The client and the driver, as `composer dump-autoload` in the folder above makes them known.
require __DIR__ . '/../../vendor/autoload.php';

// Illuminate of this system speaks of older PHP.
error_reporting(E_ALL & ~E_DEPRECATED);
foreach (['Queue', 'Events', 'Bus', 'Http'] as $part) {
    require_once "Illuminate/$part/autoload.php";
}
spl_autoload_register(static function (string $class): void {
    $paths = ['Linger\\Laravel\\Tests\\' => __DIR__, 'Linger\\Laravel\\' => __DIR__ . '/../src'];
    foreach ($paths as $prefix => $folder) {
        $file = "$folder/" . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
            return;
        }
    }
});
