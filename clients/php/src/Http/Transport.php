<?php

declare(strict_types=1);

namespace Linger\Http;

/** How requests get to a server. */
interface Transport
{
    /**
     * Sends a request once and waits for its answer, whatever its status.
     *
     * @param Meanwhile|null $meanwhile what else is to be done while it waits; who cannot do that leaves it be
     *
     * @throws TransportException if there was no answer
     * @throws HungUp             if `$meanwhile` said so
     */
    public function send(Request $request, ?Meanwhile $meanwhile = null): Response;
}
