<?php

declare(strict_types=1);

namespace Linger;

/** A topic as the server tells of it. */
final class Topic
{
    public readonly string $name;
    public readonly bool $paused;
    /** @var array<string, int> its jobs by state */
    public readonly array $counts;
    /** @var array<string, mixed> */
    public readonly array $settings;

    /**
     * @param array<string, mixed> $fields all that the server told, as it told it
     *
     * @internal
     */
    public function __construct(public readonly array $fields)
    {
        $this->name = $fields['topic'];
        $this->paused = $fields['paused'];
        $this->counts = $fields['counts'];
        $this->settings = $fields['settings'];
    }
}
