<?php

declare(strict_types=1);

namespace Linger\Laravel\Tests;

use App\Http\Controllers\LingerController;
use Illuminate\Http\Request;
use Linger\Tests\Readme;
use PHPUnit\Framework\TestCase;

/** The controller that the README shows, with real requests of Illuminate and two helpers of Laravel stood in for. */
final class ControllerTest extends TestCase
{
    private const SECRET = 'whsec_dGhlIHNlY3JldCB0aGF0IHRoZSB0ZXN0cyBoYXZl';

    public static function setUpBeforeClass(): void
    {
        eval('function config(string $name): string { return ' . var_export(self::SECRET, true) . '; }');
        eval('function logger(): object { return new class { public function info(string $text): void {
            $GLOBALS["logged"][] = $text;
        } }; }');
        require Readme::write('LingerController.php', Readme::block('**Laravel**: a controller'));
    }

    public function testASignedDeliveryIsTaken(): void
    {
        $response = (new LingerController())($this->request('{"order":7}'));
        $this->assertSame(204, $response->getStatusCode());
        $this->assertSame(['closing order 7'], $GLOBALS['logged']);
    }

    public function testOneThatWasTamperedWithIsNot(): void
    {
        $request = $this->request('{"order":7}');
        $tampered = Request::create('/', 'POST', [], [], [], $request->server->all(), '{"order":8}');
        $this->assertSame(401, (new LingerController())($tampered)->getStatusCode());
    }

    private function request(string $body): Request
    {
        $time = (string) time();
        $key = base64_decode(substr(self::SECRET, strlen('whsec_')));
        $signature = base64_encode(hash_hmac('sha256', "lg_1.$time.$body", $key, true));
        return Request::create('/', 'POST', [], [], [], [
            'HTTP_WEBHOOK_ID' => 'lg_1', 'HTTP_WEBHOOK_TIMESTAMP' => $time, 'HTTP_WEBHOOK_SIGNATURE' => "v1,$signature",
            'HTTP_LINGER_TOPIC' => 'order.close', 'HTTP_LINGER_JOB' => '7', 'CONTENT_TYPE' => 'application/json',
        ], $body);
    }
}
