// Receives signed webhooks: verify, do the work once, answer.
//
//   npm install standardwebhooks
//   WEBHOOK_SECRET=whsec_... node receiver.mjs 8080
import { createServer } from "node:http";
import { Webhook } from "standardwebhooks";

const webhook = new Webhook(process.env.WEBHOOK_SECRET);

// Ids that were seen. Yours belong into the database, stored in the transaction of the effect.
const seen = new Set();

const server = createServer(async (request, response) => {
  const pieces = [];
  for await (const piece of request) pieces.push(piece);
  // The bytes as they came: JSON that was read and written again has another signature.
  const body = Buffer.concat(pieces).toString();
  try {
    webhook.verify(body, request.headers, { jsonParse: false });
  } catch (error) {
    response.writeHead(401).end(error.message);
    return;
  }
  const id = request.headers["webhook-id"];
  console.log(seen.has(id) ? "again" : "received", id);
  seen.add(id);
  response.writeHead(204).end();
});

server.keepAliveTimeout = 60000;
server.listen(Number(process.argv[2]), "127.0.0.1", () => console.log("listening on", server.address().port));
