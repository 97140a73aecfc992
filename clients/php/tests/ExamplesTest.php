<?php

declare(strict_types=1);

namespace Linger\Tests;

use Linger\NewJob;

/** Exactly what is shown works. */
final class ExamplesTest extends ServerTestCase
{
    public function testTheShopOfTheReadmePrintsWhatItSays(): void
    {
        $process = $this->start('shop.php', Readme::block('A whole program: `shop.php`'));
        $this->assertSame(0, $process->wait());
        $this->assertSame(Readme::block('It prints', 'text'), $process->output());
        $this->assertSame('delayed', $this->client->get('order.close', '1001')->state);

        $errors = '<?php require "vendor/autoload.php"; $linger = new Linger\Client(); ?><?php '
            . Readme::block('## Errors');
        $process = $this->start('errors.php', $errors);
        $this->assertSame(0, $process->wait());
        $this->assertSame("it is known already\n", $process->output());
        $this->client->forget('order.close');
    }

    public function testTheWorkerOfTheReadmeWorks(): void
    {
        $worker = $this->start('worker.php', Readme::block('`worker.php`, for the command line'));
        foreach ([1001, 1003, 1004] as $order) {
            $this->client->add(new NewJob('order.close', ['order' => $order], id: (string) $order));
        }
        foreach ([1001, 1003, 1004] as $order) {
            $this->waitUntilGone('order.close', (string) $order);
        }
        $this->assertSame(0, $worker->end());
        $this->assertSame(5, substr_count($worker->output(), 'closing order'));
        $this->assertStringContainsString('attempt 2: closing order 1004', $worker->output());
    }

    public function testTheHookOfTheReadmeReceives(): void
    {
        $this->receives(Readme::block('`hook.php`, without a framework'));
    }

    public function testThePsr15HandlerOfTheReadmeReceives(): void
    {
        $this->receives('<?php require "vendor/autoload.php"; $psr17 = new GuzzleHttp\Psr7\HttpFactory(); ?><?php '
            . Readme::block('**PSR-15**')
            . 'http_response_code($handler->handle(GuzzleHttp\Psr7\ServerRequest::fromGlobals())->getStatusCode());');
    }

    public function testTheRegistrationOfTheReadmeRegisters(): void
    {
        $shown = Readme::block('In a program that lasts');
        $code = '<?php require "vendor/autoload.php"; ?><?php '
            . str_replace('$registration->end();', 'echo $registration->id();', $shown);
        $process = $this->start('register.php', $code);
        $this->assertSame(0, $process->wait(), $process->output());
        $worker = $this->client->call('GET', '/v1/workers/' . $process->output());
        $this->assertSame('shop', $worker['app']);
        $this->assertEqualsCanonicalizing(['order.close', 'mail'], $worker['topics']);
    }

    public function testThePaymentExampleComesOutRight(): void
    {
        $process = Process::php(Toolbox::root() . '/examples/payment.php', [Toolbox::linger()]);
        $this->assertSame(0, $process->wait(), $process->output());
        $this->assertStringContainsString('2 answered again, 1 done, 0 failed', $process->output());
    }

    private function receives(string $code): void
    {
        $topic = 'order.close';
        $secret = $this->client->call('POST', '/v1/secrets', ['topic' => $topic])['secret'];
        $file = Readme::write('hook.php', $code);
        $command = [PHP_BINARY, ...Toolbox::phpOptions(), '-S', '127.0.0.1:0', '-t', dirname($file)];
        $server = new Process($command, ['WEBHOOK_SECRETS' => $secret], dirname($file));
        $url = $server->waitFor('#\((http://127\.0\.0\.1:\d+)\) started#')[1];
        $this->client->add(new NewJob($topic, ['order' => 7], id: 'hook', target: "$url/hook.php"));
        $this->waitUntilGone($topic, 'hook');
        $this->assertStringContainsString('closing order 7', $server->output());
    }

    private function start(string $name, string $code): Process
    {
        $file = Readme::write($name, $code);
        $command = [PHP_BINARY, ...Toolbox::phpOptions(), $name];
        return new Process($command, ['LINGER_SERVER' => self::$server->url], dirname($file));
    }
}
