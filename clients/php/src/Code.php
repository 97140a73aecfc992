<?php

declare(strict_types=1);

namespace Linger;

use Linger\Exception as Refused;

/** What was wrong: the server's stable codes. */
enum Code: string
{
    case Invalid = 'invalid';
    case NotFound = 'not_found';
    case AlreadyExists = 'already_exists';
    case LeaseLost = 'lease_lost';
    case WrongState = 'wrong_state';
    case VersionMismatch = 'version_mismatch';
    case TooLarge = 'too_large';
    case Unauthorized = 'unauthorized';
    case Forbidden = 'forbidden';
    case RateLimited = 'rate_limited';
    case Overloaded = 'overloaded';
    /** Without a status: the server could not be reached, or did not answer in time. */
    case Unavailable = 'unavailable';
    case StorageFull = 'storage_full';
    case StorageFailed = 'storage_failed';
    /** An answer that is not Linger's, or a code that this client does not know. */
    case Unknown = 'unknown';

    /** @return class-string<LingerException> */
    public function exception(): string
    {
        return match ($this) {
            self::Invalid => Refused\Invalid::class,
            self::NotFound => Refused\NotFound::class,
            self::AlreadyExists => Refused\AlreadyExists::class,
            self::LeaseLost => Refused\LeaseLost::class,
            self::WrongState => Refused\WrongState::class,
            self::VersionMismatch => Refused\VersionMismatch::class,
            self::TooLarge => Refused\TooLarge::class,
            self::Unauthorized => Refused\Unauthorized::class,
            self::Forbidden => Refused\Forbidden::class,
            self::RateLimited => Refused\RateLimited::class,
            self::Overloaded => Refused\Overloaded::class,
            self::Unavailable => Refused\Unavailable::class,
            self::StorageFull, self::StorageFailed, self::Unknown => LingerException::class,
        };
    }
}
