<?php

/**
 * A shop asks a payment provider, along a ladder, whether its orders are paid: payment.php [LINGER].
 *
 * Order 1001 is asked for until the answer is final: the worker says "again" until then. For order 1002 the provider's
 * own notice comes first, and the shop cancels the job. The queue is a server that is started for it (the path of
 * `linger` by argument or in LINGER, else from PATH); the provider and the shop's door for notices are HTTP servers in
 * processes of their own.
 *
 * Prints every question, answer and notice, and what became of both jobs; exits 1 if that is not what it should be.
 */

declare(strict_types=1);

use Linger\Again;
use Linger\Client;
use Linger\Exception\NotFound;
use Linger\Job;
use Linger\NewJob;
use Linger\Worker;

require __DIR__ . '/../vendor/autoload.php';

/** An order is paid when the provider is asked about it for the third time. */
const PAID_AT_QUESTION = 3;

/** Starts a Linger server; answers the id of its process, and its address. */
function startLinger(string $binary, string $folder): array
{
    $log = "$folder/log";
    $command = [$binary, 'serve', '--listen', '127.0.0.1:0', '--store', "$folder/jobs"];
    // Kept for good: PHP waits for a process when it lets go of it.
    static $process;
    $process = proc_open($command, [['file', '/dev/null', 'r'], ['file', $log, 'w'], ['file', $log, 'a']], $pipes);
    $url = waitUntil(static function () use ($log): ?string {
        $text = (string) file_get_contents($log);
        $found = str_contains($text, ' ready') && preg_match('#listens on (http://[\d.:]+)#', $text, $address);
        return $found ? $address[1] : null;
    });
    return [proc_get_status($process)['pid'], $url];
}

/** Serves HTTP in a process of its own: `$answer(path, body)` gives the status and the text. */
function serve(callable $answer): array
{
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $url = 'http://' . stream_socket_get_name($listener, false);
    $process = pcntl_fork();
    if ($process > 0) {
        return [$process, $url];
    }
    while ($caller = stream_socket_accept($listener, -1)) {
        $path = ltrim(explode(' ', (string) fgets($caller))[1] ?? '', '/');
        $length = 0;
        while (($line = trim((string) fgets($caller))) !== '') {
            $length = sscanf(strtolower($line), 'content-length: %d')[0] ?? $length;
        }
        $body = $length > 0 ? (string) stream_get_contents($caller, $length) : '';
        [$status, $text] = $answer($path, $body);
        $head = "HTTP/1.1 $status -\r\nconnection: close\r\ncontent-length: " . strlen($text);
        fwrite($caller, "$head\r\n\r\n$text");
        fclose($caller);
    }
    exit(0);
}

/** Makes a request; answers the status and the text. */
function request(string $method, string $url, string $body = ''): array
{
    $http = ['method' => $method, 'content' => $body, 'ignore_errors' => true, 'header' => 'content-type: text/plain'];
    $text = (string) file_get_contents($url, false, stream_context_create(['http' => $http]));
    return [(int) explode(' ', $http_response_header[0])[1], $text];
}

function waitUntil(callable $ask): mixed
{
    for ($until = microtime(true) + 10; microtime(true) < $until; usleep(20_000)) {
        if ($answer = $ask()) {
            return $answer;
        }
    }
    throw new RuntimeException('it takes too long');
}

$folder = sys_get_temp_dir() . '/linger-payment-' . bin2hex(random_bytes(6));
mkdir($folder);
$processes = [];
$main = getmypid();
register_shutdown_function(static function () use ($main, $folder, &$processes): void {
    // Children come by here, too, when they end.
    if (getmypid() === $main) {
        array_map(static fn (int $process) => posix_kill($process, SIGTERM), $processes);
        exec('rm -rf ' . escapeshellarg($folder));
    }
});
[$processes[], $server] = startLinger($argv[1] ?? (getenv('LINGER') ?: 'linger'), $folder);

// The provider answers whether an order is paid, and counts how often it was asked.
$questions = [];
[$processes[], $providerUrl] = serve(static function (string $path) use (&$questions): array {
    if ($path === 'questions') {
        return [200, json_encode($questions)];
    }
    $questions[$path] = ($questions[$path] ?? 0) + 1;
    return [200, $questions[$path] < PAID_AT_QUESTION ? 'pending' : 'paid'];
});

// The shop's door for notices: an order that is known to be paid is not asked for any more.
[$processes[], $shopUrl] = serve(static function (string $path, string $order) use ($server): array {
    try {
        (new Client($server))->delete('payment.ask', $order);
        echo "shop: told that order $order is paid, its job is cancelled\n";
        return [200, 'thanks'];
    } catch (NotFound $unknown) {
        return [404, $unknown->getMessage()];
    }
});

// The shop's worker asks, and says "again" until the answer is final.
$worker = pcntl_fork();
if ($worker === 0) {
    $ask = static function (Job $job) use ($providerUrl): void {
        [, $status] = request('GET', "$providerUrl/{$job->body['order']}");
        echo "shop: attempt $job->attempt, order {$job->body['order']} is $status\n";
        if ($status !== 'paid') {
            throw new Again();
        }
    };
    (new Worker(new Client($server), ['payment.ask' => $ask], concurrency: 2))->run();
    exit(0);
}

// As payment providers recommend, only faster: soon at first, then less and less often.
$client = new Client($server);
$ladder = ['ladder' => ['50ms', '100ms', '200ms', '400ms', '800ms']];
foreach (['1001' => '50ms', '1002' => '1h'] as $order => $delay) {
    $order = (string) $order;
    $client->add(new NewJob('payment.ask', ['order' => $order], id: $order, delay: $delay, retry: $ladder));
}

echo "provider: order 1002 is paid, telling the shop\n";
[$told] = request('POST', "$shopUrl/notice", '1002');
[$toldAgain] = request('POST', "$shopUrl/notice", '1002');

waitUntil(static function () use ($client): bool {
    try {
        $client->get('payment.ask', '1001');
        return false;
    } catch (NotFound) {
        return true;
    }
});
posix_kill($worker, SIGTERM);
pcntl_waitpid($worker, $status);

$totals = $client->call('GET', '/v1/stats')['totals'];
$asked = json_decode(request('GET', "$providerUrl/questions")[1], true);
echo "{$totals['again']} answered again, {$totals['finished']} done, {$totals['failed']} failed\n";

$isRight = [$told, $toldAgain] === [200, 404]
    && $asked === [1001 => PAID_AT_QUESTION]
    && [$totals['again'], $totals['finished'], $totals['failed']] === [2, 1, 0]
    && pcntl_wexitstatus($status) === 0;
exit($isRight ? 0 : 1);
