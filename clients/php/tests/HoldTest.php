<?php

declare(strict_types=1);

namespace Linger\Tests;

use Linger\Client;
use Linger\Http\Meanwhile;
use Linger\Http\Request;
use Linger\Http\Response;
use Linger\Http\Transport;
use Linger\Job;
use Linger\Work\Hold;
use Linger\Work\Outcome;
use PHPUnit\Framework\TestCase;

/** What a worker says of a job in hand, to a server that answers as it is told to. */
final class HoldTest extends TestCase
{
    /** @var Transport&object{called: list<string>, answers: list<Response>} */
    private Transport $transport;

    protected function setUp(): void
    {
        $this->transport = new class implements Transport {
            /** @var list<string> */
            public array $called = [];
            /** @var list<Response> */
            public array $answers = [];

            public function send(Request $request, ?Meanwhile $meanwhile = null): Response
            {
                $this->called[] = basename($request->url);
                return array_shift($this->answers) ?? new Response(200, [], '{"changed":true}');
            }
        };
    }

    public function testAJobThatIsNotReservedAnyMoreIsLost(): void
    {
        $this->transport->answers = [self::refusal(409, 'wrong_state')];
        $hold = $this->hold();
        $hold->proceed(within: 60);
        $this->assertTrue($hold->isLost());
        $hold->leave();
        $this->assertSame(['touch'], $this->transport->called);
    }

    public function testWhenItIsLeftItsOutcomeIsToldIfItHasOne(): void
    {
        $this->transport->answers = array_fill(0, 2, self::refusal(503, 'overloaded'));
        $hold = $this->hold();
        $hold->end(Outcome::failed('no luck'));
        $hold->proceed();
        $hold->leave();
        $hold->leave();
        $this->assertSame(['fail', 'fail', 'fail'], $this->transport->called);
        $this->assertTrue($hold->isOver());
    }

    public function testWhenItIsLeftWithoutAnOutcomeItIsReleased(): void
    {
        $this->hold()->leave();
        $this->assertSame(['release'], $this->transport->called);
    }

    private function hold(): Hold
    {
        $client = new Client('http://server', transport: $this->transport);
        $job = new Job(['topic' => 't', 'id' => '1', 'lease' => 'l'], 60.0);
        return new Hold($client, $job, null, static fn () => null);
    }

    private static function refusal(int $status, string $code): Response
    {
        return new Response($status, [], "{\"error\":{\"code\":\"$code\",\"message\":\"no\"}}");
    }
}
