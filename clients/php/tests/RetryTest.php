<?php

declare(strict_types=1);

namespace Linger\Tests;

use Linger\Client;
use Linger\Exception\LeaseLost;
use Linger\Exception\NotFound;
use Linger\Exception\RateLimited;
use Linger\Exception\Unavailable;
use Linger\NewJob;

/** A call whose answer was lost is made once more only if that is harmless. */
final class RetryTest extends ServerTestCase
{
    public function testAnAddWithoutAnIdIsThereOnce(): void
    {
        $topic = $this->newTopic();
        $proxy = new Proxy(self::$server, 'drop,pass');
        $job = $proxy->client()->add(new NewJob($topic, 'once', delay: '1h'));
        $this->assertSame([$job->id], $this->ids($topic));
        $this->assertCount(2, $proxy->requests());
        [$first, $second] = $proxy->requests();
        $this->assertSame(strstr($first, 'key '), strstr($second, 'key '), 'both tries have the same key');
        $this->assertStringNotContainsString('key -', $first);
    }

    public function testEachAddHasAKeyOfItsOwnUnlessTheCallerGivesOne(): void
    {
        $topic = $this->newTopic();
        $this->client->add(new NewJob($topic, 1, delay: '1h'));
        $this->client->add(new NewJob($topic, 1, delay: '1h'));
        $this->client->add(new NewJob($topic, 1, delay: '1h'), idempotencyKey: 'mine');
        $this->client->add(new NewJob($topic, 1, delay: '1h'), idempotencyKey: 'mine');
        $this->assertCount(3, $this->ids($topic));
    }

    public function testAddManyWithoutIdsAreThereOnce(): void
    {
        $topic = $this->newTopic();
        $proxy = new Proxy(self::$server, 'drop,pass');
        $jobs = array_map(static fn (int $n) => new NewJob($topic, $n, delay: '1h'), range(1, 5));
        $added = $proxy->client()->addMany($jobs);
        $ids = array_map(static fn ($job) => $job->id, $added);
        sort($ids);
        $this->assertSame($ids, $this->ids($topic));
        $this->assertCount(2, $proxy->requests());
    }

    /** @return iterable<string, array{callable(Client, string): mixed, bool}> each call, and whether it is repeated */
    public function calls(): iterable
    {
        $add = static fn (?string $onConflict) => static fn (Client $c, string $topic)
            => $c->add(new NewJob($topic, 1, id: 'new', onConflict: $onConflict));
        yield 'add with an id' => [$add(null), false];
        yield 'add with an id, reject' => [$add('reject'), false];
        yield 'add with an id, keep' => [$add('keep'), true];
        yield 'add with an id, replace' => [$add('replace'), true];
        $addMany = static fn (?string $onConflict) => static fn (Client $c, string $topic)
            => $c->addMany([new NewJob($topic, 1), new NewJob($topic, 2, id: 'b', onConflict: $onConflict)]);
        yield 'add_many, one of which must not be added twice' => [$addMany(null), false];
        yield 'add_many, all of which may' => [$addMany('keep'), true];
        yield 'get' => [static fn (Client $c, string $topic) => $c->get($topic, '1'), true];
        yield 'history' => [static fn (Client $c, string $topic) => $c->history($topic, '1'), true];
        yield 'jobs' => [static fn (Client $c, string $topic) => iterator_to_array($c->jobs($topic)), true];
        yield 'topics' => [static fn (Client $c) => iterator_to_array($c->topics('none')), true];
        yield 'topic' => [static fn (Client $c, string $topic) => $c->topic($topic), true];
        yield 'pop' => [static fn (Client $c, string $topic) => $c->pop("$topic.none"), true];
        yield 'update' => [static fn (Client $c, string $topic) => $c->update($topic, '1', ['ttr' => 9]), true];
        yield 'update if_version' => [static fn (Client $c, string $topic) => $c->update($topic, '1', [], 1), false];
        yield 'delete' => [static fn (Client $c, string $topic) => $c->delete($topic, '1'), true];
        yield 'delete if_version' => [static fn (Client $c, string $topic) => $c->delete($topic, '1', 1), false];
        yield 'run' => [static fn (Client $c, string $topic) => $c->run($topic, '1'), false];
        yield 'hold' => [static fn (Client $c, string $topic) => $c->hold($topic, '1'), true];
        yield 'unhold' => [static fn (Client $c, string $topic) => $c->unhold($topic, '1'), true];
        yield 'finish without a lease' => [static fn (Client $c, string $topic) => $c->finish($topic, 'p'), false];
        yield 'fail without a lease' => [static fn (Client $c, string $topic) => $c->fail($topic, 'p'), false];
        yield 'release without a lease' => [static fn (Client $c, string $topic) => $c->release($topic, 'p'), false];
        yield 'touch without a lease' => [static fn (Client $c, string $topic) => $c->touch($topic, 'p'), true];
        yield 'configure' => [static fn (Client $c, string $topic) => $c->configure($topic, ['ttr' => 5]), true];
        yield 'forget' => [static fn (Client $c, string $topic) => $c->forget($topic), true];
        yield 'pause' => [static fn (Client $c, string $topic) => $c->pause($topic), true];
        yield 'resume' => [static fn (Client $c, string $topic) => $c->resume($topic), true];
        yield 'empty' => [static fn (Client $c, string $topic) => $c->empty($topic), true];
        yield 'redrive' => [static fn (Client $c, string $topic) => $c->redrive($topic), false];
    }

    /** @dataProvider calls */
    public function testACallIsRepeatedIfThatIsHarmless(callable $call, bool $isRepeated): void
    {
        $topic = $this->newTopic();
        $this->client->add(new NewJob($topic, id: 'p'));
        $this->client->pop($topic);
        $this->client->add(new NewJob($topic, id: '1', delay: '1h'));
        $proxy = new Proxy(self::$server, 'drop,pass');
        if ($isRepeated) {
            $call($proxy->client(), $topic);
        } else {
            $refusal = $this->assertRefused(Unavailable::class, fn () => $call($proxy->client(), $topic));
            $this->assertNull($refusal->status);
            $this->assertFalse($refusal->nothingDone);
        }
        $this->assertCount($isRepeated ? 2 : 1, $proxy->requests());
    }

    /** @return iterable<string, array{string}> */
    public function outcomes(): iterable
    {
        yield 'finish' => ['finish'];
        yield 'fail' => ['fail'];
        yield 'release' => ['release'];
    }

    /** @dataProvider outcomes */
    public function testAnOutcomeThatWasCarriedOutCountsAsToldAtTheSecondTry(string $how): void
    {
        $topic = $this->newTopic();
        $this->client->add(new NewJob($topic, id: '1', retry: ['ladder' => ['1h']]));
        [$job] = $this->client->pop($topic, ttr: '60s');
        $proxy = new Proxy(self::$server, 'drop,pass');
        $this->assertTrue($proxy->client()->$how($job)->changed);
        $this->assertCount(2, $proxy->requests());
        // Told anew, and not after a lost answer, it is what it is.
        $expected = $how === 'finish' ? NotFound::class : LeaseLost::class;
        $this->assertRefused($expected, fn () => $this->client->$how($job));
    }

    public function testADeleteThatWasCarriedOutCountsAsDoneAtTheSecondTry(): void
    {
        $topic = $this->newTopic();
        $this->client->add(new NewJob($topic, id: '1', delay: '1h'));
        $proxy = new Proxy(self::$server, 'drop,pass');
        $this->assertTrue($proxy->client()->delete($topic, '1')->changed);
        $this->assertRefused(NotFound::class, fn () => $this->client->delete($topic, '1'));
    }

    public function testACallThatFailsTwiceIsNotMadeAThirdTime(): void
    {
        $proxy = new Proxy(self::$server, 'drop');
        $this->assertRefused(Unavailable::class, fn () => iterator_to_array($proxy->client()->topics()));
        $this->assertCount(2, $proxy->requests());
    }

    public function testWhatWasRefusedWithNothingDoneIsTriedAgainInAnyCase(): void
    {
        $topic = $this->newTopic();
        $this->client->add(new NewJob($topic, id: '1', delay: '1h'));
        $proxy = new Proxy(self::$server, 'overload,pass');
        $this->assertSame('ready', $proxy->client()->run($topic, '1')->job?->state);
        $this->assertCount(2, $proxy->requests());
    }

    public function testAServerThatIsUnavailableMayHaveDoneIt(): void
    {
        $proxy = new Proxy(self::$server, 'refuse,pass');
        $this->assertRefused(Unavailable::class, fn () => $proxy->client()->run('t', '1'));
        $this->assertCount(1, $proxy->requests());
    }

    public function testAnAnswerOfSomethingInBetweenMayHideThatItWasDone(): void
    {
        $proxy = new Proxy(self::$server, 'gateway');
        $refusal = $this->assertRefused(Unavailable::class, fn () => $proxy->client()->run('t', '1'));
        $this->assertSame(502, $refusal->status);
        $this->assertCount(1, $proxy->requests());
    }

    public function testWhoIsRateLimitedDoesNotTryAgain(): void
    {
        $proxy = new Proxy(self::$server, 'limit,pass');
        $this->assertRefused(RateLimited::class, fn () => $proxy->client()->topic('t'));
        $this->assertCount(1, $proxy->requests());
    }

    /** @return list<string> */
    private function ids(string $topic): array
    {
        $ids = array_map(static fn ($job) => $job->id, iterator_to_array($this->client->jobs($topic)));
        sort($ids);
        return $ids;
    }
}
