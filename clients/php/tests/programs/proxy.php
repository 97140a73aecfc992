<?php

/**
 * A proxy of HTTP that spoils answers: proxy.php UPSTREAM PLAN.
 *
 * The plan has a word for each request, the last for all that follow: `pass`, `drop` (passes the request on, and hangs
 * up in place of the answer), `refuse` (answers 503 `unavailable`), `overload`, `limit`, `gateway` (answers 502 as
 * something in between would). Says its port, then each request.
 */

declare(strict_types=1);

[, $upstream, $plan] = $argv;
$plan = explode(',', $plan);
$refusals = [
    'refuse' => ['503 Service Unavailable', '{"error":{"code":"unavailable","message":"not now"}}'],
    'overload' => ['503 Service Unavailable', '{"error":{"code":"overloaded","message":"too much"}}'],
    'limit' => ['429 Too Many Requests', '{"error":{"code":"rate_limited","message":"too often"}}'],
    'gateway' => ['502 Bad Gateway', '<html>bad gateway</html>'],
];

/** @param resource $stream */
function message($stream): string
{
    $message = '';
    while (!str_ends_with($message, "\r\n\r\n")) {
        $line = fgets($stream);
        if ($line === false) {
            return '';
        }
        $message .= $line;
    }
    $length = preg_match('/^content-length: (\d+)/mi', $message, $found) ? (int) $found[1] : 0;
    return $length === 0 ? $message : $message . stream_get_contents($stream, $length);
}

$listener = stream_socket_server('tcp://127.0.0.1:0');
echo 'port ', substr(strrchr(stream_socket_get_name($listener, false), ':'), 1), "\n";
while ($caller = stream_socket_accept($listener, -1)) {
    $request = message($caller);
    if ($request === '') {
        continue;
    }
    $how = count($plan) > 1 ? array_shift($plan) : $plan[0];
    $key = preg_match('/^idempotency-key: (\S+)/mi', $request, $found) ? $found[1] : '-';
    echo "$how ", strtok($request, "\r"), " key $key\n";
    if (isset($refusals[$how])) {
        [$status, $body] = $refusals[$how];
        $head = "HTTP/1.1 $status\r\nconnection: close\r\ncontent-length: " . strlen($body);
        fwrite($caller, "$head\r\n\r\n$body");
    } else {
        $server = stream_socket_client($upstream);
        fwrite($server, $request);
        $answer = message($server);
        fclose($server);
        if ($how === 'pass') {
            fwrite($caller, preg_replace('/\r\n/', "\r\nconnection: close\r\n", $answer, 1));
        }
    }
    fclose($caller);
}
