// A receiver that verifies what it gets with the package `standardwebhooks`, and says so by a line.

const http = require("http");
const { Webhook } = require("standardwebhooks");

const webhook = new Webhook(process.argv[2]);

const server = http.createServer((request, response) => {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    let status = 204;
    let word = "accepted";
    try {
      webhook.verify(Buffer.concat(parts).toString(), request.headers);
    } catch (error) {
      status = 401;
      word = `refused: ${error.message}`;
    }
    response.writeHead(status).end();
    console.log(word);
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
