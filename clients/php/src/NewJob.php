<?php

declare(strict_types=1);

namespace Linger;

/**
 * A job to be added. What is left out is the server's or the topic's default.
 */
final class NewJob
{
    /**
     * @param string|null                         $topic      `default` unless given
     * @param mixed                               $body       any value that JSON can hold, `Bytes`, or `Json` that is
     *                                                        sent as it is; null is no body
     * @param string|null                         $id         its name within the topic; one is made unless given
     * @param \DateInterval|int|float|string|null $delay      when it is due, from now: seconds, or text such as `30m`
     * @param \DateTimeInterface|int|string|null  $at         when it is due, in place of a delay
     * @param \DateInterval|int|float|string|null $ttr        how long an attempt may take
     * @param int|null                            $priority   smaller is sooner among ready jobs
     * @param array<string, mixed>|null           $retry      `['ladder' => ['15s', '3m']]`, `['attempts' => 3]`, …
     * @param array<string, mixed>|null           $repeat     `['every' => '60s']`, `['cron' => '0 9 * * *']`, …
     * @param string|null                         $target     where it is pushed to; such a job is not popped
     * @param string|null                         $confirm    when a push counts as finished: `delivery`, `finish`
     * @param string|null                         $envelope   what a push makes of the body
     * @param \DateInterval|int|float|string|null $retain     how long it stays visible when finished
     * @param bool|null                           $held       whether it is set aside from the start
     * @param string|null                         $onConflict `reject`, `keep` or `replace` one of the same id
     */
    public function __construct(
        public readonly ?string $topic = null,
        public readonly mixed $body = null,
        public readonly ?string $id = null,
        public readonly \DateInterval|int|float|string|null $delay = null,
        public readonly \DateTimeInterface|int|string|null $at = null,
        public readonly \DateInterval|int|float|string|null $ttr = null,
        public readonly ?int $priority = null,
        public readonly ?array $retry = null,
        public readonly ?array $repeat = null,
        public readonly ?string $target = null,
        public readonly ?string $confirm = null,
        public readonly ?string $envelope = null,
        public readonly \DateInterval|int|float|string|null $retain = null,
        public readonly ?bool $held = null,
        public readonly ?string $onConflict = null,
        public readonly ?string $contentType = null,
        public readonly ?string $traceparent = null,
    ) {
    }

    /**
     * Its fields as the API names them.
     *
     * @return array<string, mixed>
     */
    public function fields(): array
    {
        return Fields::given([
            'topic' => $this->topic, 'id' => $this->id, 'delay' => $this->delay, 'at' => $this->at,
            'ttr' => $this->ttr, 'priority' => $this->priority, 'retry' => $this->retry, 'repeat' => $this->repeat,
            'target' => $this->target, 'confirm' => $this->confirm, 'envelope' => $this->envelope,
            'retain' => $this->retain, 'held' => $this->held, 'on_conflict' => $this->onConflict,
            'content_type' => $this->contentType, 'traceparent' => $this->traceparent,
            'body' => $this->body,
        ]);
    }
}
