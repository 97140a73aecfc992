import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ConnectionOptions } from 'node:tls';

/** A length of time: milliseconds, or text as the server takes it, such as `"500ms"`, `"30s"`, `"2h30m"`, `"7d"`. */
export type Length = number | string;

/** A moment: a Date, text in RFC 3339, or Unix time in 10, 13 or 16 digits. */
export type Moment = Date | string | number;

/** Where a job stands. `retry` is delayed after a failure, `held` set aside by hand, `dead` out of attempts. */
export type State = 'delayed' | 'retry' | 'held' | 'ready' | 'reserved' | 'dead' | 'finished';

/** What an error is, to match on; a server newer than this client may have others. */
export type Code =
    | 'invalid'
    | 'not_found'
    | 'already_exists'
    | 'lease_lost'
    | 'wrong_state'
    | 'version_mismatch'
    | 'too_large'
    | 'unauthorized'
    | 'forbidden'
    | 'rate_limited'
    | 'overloaded'
    | 'unavailable'
    | 'storage_full'
    | 'storage_failed'
    | (string & {});

/** Why a call failed. Match on `code`, which is stable; the message is for people. */
export class LingerError extends Error {
    constructor(code: Code, message: string, more?: { status?: number; field?: string; cause?: unknown });
    /** What it is. `unavailable` without a status is a server that cannot be reached or does not answer in time. */
    readonly code: Code;
    /** The HTTP status, if the server has answered. */
    readonly status: number | undefined;
    /** The field at fault, if it is one. */
    readonly field: string | undefined;
    /** Whether an error is one of Linger's, and if codes are given, one with such a code. */
    static is(error: unknown, ...codes: Code[]): error is LingerError;
    /** As the API writes it. */
    toJSON(): { code: Code; message: string; field?: string };
}

/** How many attempts a job has, and the waits between them: a backoff or a ladder. */
export interface Retry {
    /** 0 is no limit. */
    attempts?: number | null;
    /** Doubling waits. */
    backoff?: { base?: Length | null; max?: Length | null; jitter?: number | null } | null;
    /** These waits, one after the other. */
    ladder?: Length[] | null;
    /** Whether a ladder's steps count from each failure or from the first due time. */
    from?: 'failure' | 'due' | null;
}

/** When a job runs again: `every` so often, or by `cron` in a time zone. */
export interface Repeat {
    every?: Length | null;
    cron?: string | null;
    tz?: string | null;
    until?: Moment | null;
    count?: number | null;
    misfire?: 'once' | 'skip' | { all: number } | null;
    on_dead?: 'go_on' | 'stop' | null;
}

/** A job to add. Fields have the names of the API. */
export interface NewJob {
    /** `default` unless given. */
    topic?: string | null;
    /** Its name within the topic; one is made unless given. */
    id?: string | null;
    /** Anything that JSON can hold, bytes (a Buffer or any other view), or a RawJson. */
    body?: unknown;
    /** Bytes as base64, in place of `body`. */
    body_base64?: string | null;
    /** How long from now it is due; at once unless given. */
    delay?: Length | null;
    /** When it is due, in place of `delay`. */
    at?: Moment | null;
    /** How long an attempt may take. */
    ttr?: Length | null;
    /** Smaller is sooner among ready jobs; 1024 unless given. */
    priority?: number | null;
    retry?: Retry | null;
    repeat?: Repeat | null;
    /** Where it is pushed; without one it waits to be popped. */
    target?: string | null;
    /** When a push counts as finished. */
    confirm?: 'delivery' | 'finish' | null;
    /** What a push makes of the body. */
    envelope?: 'body' | 'cloudevents' | 'task' | null;
    /** How long it stays visible when finished. */
    retain?: Length | null;
    /** Set aside from the start. */
    held?: boolean | null;
    /** What to do if the topic has a job of this id. */
    on_conflict?: 'reject' | 'keep' | 'replace' | null;
    content_type?: string | null;
    traceparent?: string | null;
}

/** What an update may change; null takes the job's own value away. */
export interface Changes {
    delay?: Length | null;
    at?: Moment | null;
    body?: unknown;
    body_base64?: string | null;
    priority?: number | null;
    ttr?: Length | null;
    retry?: Retry | null;
    target?: string | null;
}

/** A body that is JSON already, and sent as it is, not written anew. Throws a SyntaxError if it is none. */
export class RawJson {
    constructor(text: string);
    readonly text: string;
}

/** Where a job stands, without what its caller gave. */
export interface Standing {
    /** Its number in this store; exact up to 2^53. */
    number: number;
    state: State;
    due: Date;
    /** How often it was handed out. */
    attempt: number;
    /** Counts its changes. */
    version: number;
    priority: number;
    /** When its lease ends, while it is handed out. */
    reserved_until?: Date;
    /** Of a repeating job: which one this is, from 0. */
    occurrence?: number;
}

/** A job as the server told it; fields have the names of the API. */
export interface Job<Body = any> extends Standing {
    topic: string;
    id: string;
    created: Date;
    /**
     * The value that was given: anything that JSON can hold, or a Buffer if it was bytes. Undefined where it was not
     * asked for.
     */
    body: Body;
    /**
     * The body as it is kept, to the byte: JSON that was never parsed, so that numbers of any size are exact; a string
     * is its text. Undefined for bytes.
     */
    readonly text: string | undefined;
    last_error?: string;
    ttr?: string;
    retry?: Retry;
    repeat?: Repeat;
    target?: string;
    confirm?: 'delivery' | 'finish';
    envelope?: 'body' | 'cloudevents' | 'task';
    retain?: string;
    content_type?: string;
    traceparent?: string;
    /** As the API writes it. */
    toJSON(): object;
}

/** The class of jobs, for `instanceof`. */
export const Job: { prototype: Job; [Symbol.hasInstance](value: unknown): boolean };

/** A job that was popped: it has a lease. */
export interface PoppedJob<Body = any> extends Job<Body> {
    lease: string;
    reserved_until: Date;
}

/** Which job: one that was popped, or any by its topic and id. Without a lease a call holds whoever has the job. */
export interface JobRef {
    topic: string;
    id: string;
    lease?: string;
}

/** What became of a job. */
export interface Changed {
    /** Whether anything changed. */
    changed: boolean;
    /** Where it stands now; missing if it is gone. */
    job?: Standing;
}

/** What became of one of many jobs that were added. */
export type Added = { job: Job; error?: undefined } | { error: LingerError; job?: undefined };

/** Something that happened to a job. */
export interface HistoryEvent {
    at: Date;
    what: string;
    attempt: number;
    by?: string;
    error?: string;
    took?: string;
    answer?: { status?: number; excerpt?: string };
}

/** What holds for the jobs of a topic that do not say otherwise, and how fast they are handed out. */
export interface TopicSettings {
    ttr?: Length | null;
    retry?: Retry | null;
    target?: string | null;
    confirm?: 'delivery' | 'finish' | null;
    envelope?: 'body' | 'cloudevents' | 'task' | null;
    /** The most a push may take. */
    timeout?: Length | null;
    /** What every push brings along besides. */
    headers?: Record<string, string> | null;
    archive?: string | null;
    retain?: Length | null;
    retain_dead?: Length | null;
    /** So many hand-outs a second, or text such as `"10/m"`. */
    rate?: number | string | null;
    concurrency?: number | null;
    jobs_max?: number | null;
    bytes_max?: number | null;
    partitions?: number | null;
}

/** A topic. */
export interface TopicInfo {
    topic: string;
    paused?: boolean;
    /** How much longer, if not until resumed. */
    paused_for?: string;
    /** Jobs by state. */
    counts?: Record<State, number>;
    /** Calls that wait for its jobs. */
    waiting?: number;
    /** Jobs added since it came to be. */
    added?: number;
    bytes?: number;
    settings?: TopicSettings;
}

/** What every call takes. */
export interface CallOptions {
    /** Hangs up when it is aborted; the call is then rejected with the signal's reason. */
    signal?: AbortSignal;
}

/** A guard: only if the job's `version` is still this. Such a call is never repeated. */
export interface Guard {
    if_version?: number;
}

/** How a job is added. */
export interface AddOptions extends CallOptions {
    /** For a job without an id: the same key finds the same job. One is made for each call unless given. */
    idempotencyKey?: string;
}

/** What to pop. */
export interface PopOptions extends CallOptions {
    /** At most so many; 1 unless given. */
    max?: number;
    /** How long to wait for the first. */
    wait?: Length;
    /** How long these attempts may take, in place of the jobs' own. */
    ttr?: Length;
}

/** Why an attempt has failed. */
export interface FailOptions extends CallOptions {
    error?: string;
    /** When to try again, in place of its next step. */
    retry_in?: Length;
    /** Not a failure, only not yet. */
    again?: boolean;
}

/** How a job is given back. */
export interface ReleaseOptions extends CallOptions {
    /** Ready again after so long; at once unless given. */
    delay?: Length;
    priority?: number;
}

/** How much more time an attempt needs. */
export interface TouchOptions extends CallOptions {
    /** From now; as long as before unless given. */
    ttr?: Length;
}

/** Which jobs of a topic. */
export interface JobFilter extends CallOptions {
    state?: State;
    due_before?: Moment;
    due_after?: Moment;
    id_prefix?: string;
    error?: string;
    /** How many a page. */
    limit?: number;
    cursor?: string;
    /** Whether bodies come along. */
    body?: boolean;
}

/** Which topics. */
export interface TopicFilter extends CallOptions {
    prefix?: string;
    /** How many a page. */
    limit?: number;
    cursor?: string;
}

/** Which dead jobs are to be ready again; all unless given. */
export interface RedriveOptions extends CallOptions {
    jobs?: { id: string }[];
    where?: { due_before?: Moment; due_after?: Moment; id_prefix?: string; error?: string };
    limit?: number;
    dry_run?: boolean;
}

/** A call that has no name here. */
export interface RequestOptions extends CallOptions {
    /** What is sent, as JSON. */
    body?: unknown;
    /** Whether it may be made once more if its answer was lost; so for GET unless given. */
    harmless?: boolean;
}

/** How a client is made. */
export interface ClientOptions {
    /** One address or several, also with commas; by default `LINGER_SERVER`, else `http://127.0.0.1:7300`. */
    servers?: string | string[];
    /** The API key; by default `LINGER_KEY`. */
    key?: string;
    /** How long an answer may take, besides the wait of a pop; 10 s unless given. */
    timeout?: Length;
    /** How long a connection may take; 5 s unless given. */
    connectTimeout?: Length;
    /** Authorities to trust, in PEM, in place of those that Node trusts. */
    ca?: string | Buffer | (string | Buffer)[];
    /** More of what `tls.connect` takes, such as `cert` and `key` of a client's certificate. */
    tls?: ConnectionOptions;
}

/** Calls a Linger server, or one of several that share a store. All but a RawJson are checked by the server alone. */
export class Client {
    constructor(options?: ClientOptions);
    /** Adds a job. */
    add(job: NewJob, options?: AddOptions): Promise<Job>;
    /** Adds up to 1,000 jobs; each is added or refused by itself, and answered in its place. */
    addMany(jobs: NewJob[], options?: CallOptions): Promise<Added[]>;
    /** The job, with its body. */
    get<Body = any>(topic: string, id: string, options?: CallOptions): Promise<Job<Body>>;
    /** Changes a job. */
    update(topic: string, id: string, changes: Changes, options?: CallOptions & Guard): Promise<Changed>;
    /** Cancels a job. */
    delete(topic: string, id: string, options?: CallOptions & Guard): Promise<Changed>;
    /** What happened to a job. */
    history(topic: string, id: string, options?: CallOptions): Promise<HistoryEvent[]>;
    /** Makes a job ready now. */
    run(topic: string, id: string, options?: CallOptions & Guard): Promise<Changed>;
    /** Sets a job aside. */
    hold(topic: string, id: string, options?: CallOptions & Guard): Promise<Changed>;
    /** Lets a job go that was set aside. */
    unhold(topic: string, id: string, options?: CallOptions & Guard): Promise<Changed>;
    /** Leases due jobs of one topic or several; an empty list when the wait is over. */
    pop<Body = any>(topics: string | string[], options?: PopOptions): Promise<PoppedJob<Body>[]>;
    /** Done: the job is finished. */
    finish(job: JobRef, options?: CallOptions): Promise<Changed>;
    /** The attempt has failed, or is to be made again. */
    fail(job: JobRef, options?: FailOptions): Promise<Changed>;
    /** Gives a job back; the attempt does not count. */
    release(job: JobRef, options?: ReleaseOptions): Promise<Changed>;
    /** Gives an attempt more time. */
    touch(job: JobRef, options?: TouchOptions): Promise<Changed>;
    /** The jobs of a topic, fetched page after page as they are wanted. */
    jobs<Body = any>(topic: string, filter?: JobFilter): AsyncGenerator<Job<Body>, void, undefined>;
    /** The topics, fetched page after page as they are wanted. */
    topics(filter?: TopicFilter): AsyncGenerator<TopicInfo, void, undefined>;
    /** One topic, with its counts and settings. */
    topic(topic: string, options?: CallOptions): Promise<TopicInfo>;
    /** Gives a topic settings, in place of all that it had. */
    configure(topic: string, settings: TopicSettings, options?: CallOptions): Promise<TopicInfo>;
    /** Removes a topic's jobs and settings. */
    forget(topic: string, options?: CallOptions): Promise<{ count: number }>;
    /** Hands nothing out, for so long or until it is resumed. */
    pause(topic: string, options?: CallOptions & { for?: Length }): Promise<TopicInfo>;
    /** Hands out again. */
    resume(topic: string, options?: CallOptions): Promise<TopicInfo>;
    /** Removes a topic's jobs. */
    empty(topic: string, options?: CallOptions): Promise<{ count: number }>;
    /** Makes dead jobs ready again. */
    redrive(topic: string, options?: RedriveOptions): Promise<{ count: number; dry_run: boolean }>;
    /** Makes any call of the API, such as `request('GET', '/v1/stats')`; answers what the server does, unchanged. */
    request(method: string, path: string, options?: RequestOptions): Promise<any>;
    /** Closes the connections that are kept; they do not keep a process alive. */
    close(): void;
}

/** What a handler gets besides the job. */
export interface HandlerContext {
    /** Aborted when the job is no longer this attempt's: its lease was lost, or the grace of a stop is over. */
    signal: AbortSignal;
}

/** Works on a job. Returning finishes it, throwing fails it; see RetryIn and Again. */
export type Handler<J> = (job: J, context: HandlerContext) => unknown;

/** Thrown by a handler: the job has failed, and is to be tried again after so long. */
export class RetryIn extends Error {
    constructor(delay: Length, why?: unknown);
    readonly delay: Length;
}

/** Thrown by a handler: not yet. The job comes again at its next step, or after `delay`, and this is no failure. */
export class Again extends Error {
    constructor(delay?: Length);
    readonly delay: Length | undefined;
}

/** How a worker works. */
export interface WorkerOptions {
    /** Who works on the jobs of which topic. */
    handlers: Record<string, Handler<PoppedJob>>;
    /** How many jobs at a time; 8 unless given. */
    concurrency?: number;
    /** How long attempts may take between two touches, in place of the jobs' own. */
    ttr?: Length;
    /** How long a pop waits; 30 s unless given. */
    wait?: Length;
    /** How long handlers may go on after a stop; 30 s unless given. */
    grace?: Length;
    /** Whether SIGTERM and SIGINT stop it. */
    signals?: boolean;
    /** Is told what goes wrong, with the job if it is about one; console.error unless given. */
    onError?: (error: unknown, job?: PoppedJob) => void;
}

/** Pops jobs and has them handled, several at a time, until it is stopped. */
export class Worker {
    constructor(client: Client, options: WorkerOptions);
    /** Begins to pop. */
    start(): this;
    /** Asks for no more, lets handlers end for a grace time, and releases what is left. */
    stop(options?: { grace?: Length }): Promise<void>;
}

/** Headers of a request: Node's, those of fetch, or any object. */
export type HeadersLike = Headers | Record<string, string | string[] | undefined>;

/** A job that was pushed here. */
export class PushedJob<Body = any> {
    private constructor();
    readonly topic: string;
    readonly id: string;
    readonly attempt: number;
    readonly due: Date;
    /** To finish or fail it by, if it has `confirm: "finish"`. */
    readonly lease: string;
    /** The same for every attempt at this occurrence: drop what you know. */
    readonly webhookId: string;
    /** By its content type: JSON is parsed, text is a string, all else is the bytes. */
    readonly body: Body;
    /** The body as it came. */
    readonly bytes: Buffer;
    /** The body as it came, as text. */
    readonly text: string;
}

/**
 * Checks the signature of a delivery and gives back its job.
 *
 * Secrets are `whsec_…` and public keys `whpk_…`; any one that fits will do. The body must be as it came, to the byte.
 * Throws a LingerError with the code `unauthorized` if the signature is wrong, missing, or older than 5 minutes.
 */
export function verify<Body = any>(
    secrets: string | string[],
    headers: HeadersLike,
    body: string | Uint8Array,
    options?: { now?: Date },
): PushedJob<Body>;

/** How pushes are received. */
export interface WebhookOptions {
    /** Who may sign: `whsec_…` and `whpk_…`, several while they are rotated. */
    secrets: string | string[];
    /** Who works on the jobs of which topic. */
    handlers: Record<string, Handler<PushedJob>>;
    /** The largest body that is read; 16 MiB unless given. */
    bodyBytesMax?: number;
    /** Is told what goes wrong, with the job if it is about one; console.error unless given. */
    onError?: (error: unknown, job?: PushedJob) => void;
}

/** What a push is answered. */
export interface Answer {
    status: number;
    /** To be sent as JSON, if it is there. */
    body?: object;
}

/** Receives what a server pushes, checks who has signed it, and has it handled by topic. */
export class Webhook {
    constructor(options: WebhookOptions);
    /** A handler for Express (before `express.json()`, or behind `express.raw()`); `http.createServer` takes it too. */
    express(): (request: IncomingMessage, response: ServerResponse) => Promise<void>;
    /** A plugin for Fastify: `fastify.register(webhook.fastify(), { path: '/hooks' })`. */
    fastify(): (instance: any, options?: { path?: string }) => Promise<void>;
    /** For every other framework: what a delivery is to be answered. */
    answer(headers: HeadersLike, body: string | Uint8Array, options?: CallOptions): Promise<Answer>;
}

/** How a service registers and is reached. */
export interface ServiceOptions extends Omit<WebhookOptions, 'secrets'> {
    /** The application: its jobs have the target `worker:APP`. */
    app: string;
    /** Where the server finds this instance; of one that listens itself, its own address unless given. */
    url?: string;
    /** Who may sign. Left out, calls are not checked: then none but the server may reach this address. */
    secrets?: string | string[];
    /** Serves by itself, on this port (any unless given) and host (127.0.0.1). Else mount it somewhere. */
    listen?: { port?: number; host?: string };
    /** Its name among the workers; one is made unless given. */
    id?: string;
    /** How long it is known without a heartbeat; 30 s unless given. */
    lease?: Length;
    /** How long calls may go on after a stop; 30 s unless given. */
    grace?: Length;
    /** Whether SIGTERM and SIGINT stop it. */
    signals?: boolean;
}

/** An instance of an application that the server calls with its jobs: those with the target `worker:APP`. */
export class Service extends Webhook {
    constructor(client: Client, options: ServiceOptions);
    /** Its name among the workers, once it is registered. */
    readonly id: string | undefined;
    /** Where it is called, once that is known. */
    readonly url: string | undefined;
    /** Listens if it is to, registers, and keeps that alive. Asks again while the server is away. */
    start(): Promise<this>;
    /** Drains, lets calls under way end for a grace time, and deregisters. */
    stop(options?: { grace?: Length }): Promise<void>;
}
