// A story told by jackd, which others wrote. Usage: jackd.js HOST PORT
const assert = require("node:assert");
const JackdClient = require("jackd");

const [host, port] = [process.argv[2], Number(process.argv[3])];

function value(yaml, key) {
    const line = yaml.split("\n").find((line) => line.startsWith(`${key}: `));
    return line.slice(key.length + 2).replaceAll('"', "");
}

async function main() {
    const client = await new JackdClient().connect({ host, port });
    assert.strictEqual(await client.use("jack"), "jack");
    assert.strictEqual(await client.listTubeUsed(), "jack");
    assert.strictEqual(await client.watch("jack"), 2);
    assert.strictEqual(await client.ignore("default"), 1);
    await assert.rejects(client.ignore("jack"), /NOT_IGNORED/);

    const id = await client.put("hello", { priority: 7, delay: 0, ttr: 30 });
    await client.put({ later: true }, { delay: 100 });
    const job = await client.reserve();
    assert.deepStrictEqual([job.id, job.payload.toString()], [id, "hello"]);
    await client.touch(id);
    await client.release(id, { priority: 3, delay: 0 });
    const stats = await client.statsJob(id);
    assert.deepStrictEqual(
        ["state", "pri", "tube", "releases"].map((key) => value(stats, key)),
        ["ready", "3", "jack", "1"],
    );
    assert.strictEqual((await client.peekReady()).id, id);
    await client.reserveWithTimeout(5);
    await client.bury(id, 9);
    assert.strictEqual((await client.peekBuried()).id, id);
    assert.strictEqual(await client.kick(10), 1);
    await client.reserveJob(id);
    await client.delete(id);
    await assert.rejects(client.peek(id), /NOT_FOUND/);
    await assert.rejects(client.reserveWithTimeout(0), /TIMED_OUT/);

    const later = (await client.peekDelayed()).id;
    await client.kickJob(later);
    // Not pauseTube: jackd 2.2.2 forgets to end that line, and waits for ever with any server.
    assert.strictEqual(value(await client.statsTube("jack"), "current-jobs-ready"), "1");
    const ready = await client.reserveWithTimeout(5);
    assert.deepStrictEqual(JSON.parse(ready.payload), { later: true });
    await client.delete(later);

    // A body that comes in many pieces.
    const large = "支付".repeat(10_000);
    const sent = await client.put(large);
    const came = await client.reserve();
    assert.ok(came.id === sent && came.payload.toString() === large);
    await client.delete(sent);
    await assert.rejects(client.put("x".repeat(65_536)), /JOB_TOO_BIG/);
    assert.strictEqual(value(await client.stats(), "max-job-size"), "65535");
    assert.match(await client.listTubes(), /^- jack$/m);
    assert.match(await client.listTubesWatched(), /^- jack$/m);
    await client.quit();
    console.log("all well");
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
