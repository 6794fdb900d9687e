// Receives webhooks and verifies them (Standard Webhooks). Node 18 or newer, no packages:
//   WEBHOOK_SECRET=whsec_… PORT=8000 node receiver.mjs
import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';

const TOLERANCE_S = 300; // An older request may be a copy that somebody recorded and sends again.
const MAX_BODY = 32 * 1024 * 1024; // Bytes. The details of a large return have up to 24 MiB.
const MAX_IDS = 100_000;

// The key is what the text after the prefix encodes, not the text.
const key = Buffer.from((process.env.WEBHOOK_SECRET ?? '').replace(/^whsec_/, ''), 'base64');
if (key.length === 0) throw new Error('WEBHOOK_SECRET must be the secret of the webhook: whsec_…');

// Lost at a restart. In production store the id (unique) and the event in a table before you respond.
const seen = new Set();

function isGenuine(headers, body) {
  const id = headers['webhook-id'];
  const time = headers['webhook-timestamp'] ?? '';
  if (!id || !/^\d{1,12}$/.test(time)) return false;
  if (Math.abs(Date.now() / 1000 - Number(time)) > TOLERANCE_S) return false;
  // The bytes as they came: JSON that was parsed and written again has another signature.
  const expected = createHmac('sha256', key).update(`${id}.${time}.`).update(body).digest();
  // While a secret rotates, the header has a signature of each secret. One match is enough.
  return (headers['webhook-signature'] ?? '').split(' ').some((one) => {
    const sent = Buffer.from(one.startsWith('v1,') ? one.slice(3) : '', 'base64');
    // Constant time: how long a comparison takes must not show how much of a guess is right.
    return sent.length === expected.length && timingSafeEqual(sent, expected);
  });
}

function isNew(id) {
  if (seen.has(id)) return false;
  seen.add(id);
  if (seen.size > MAX_IDS) seen.delete(seen.values().next().value); // the oldest
  return true;
}

async function receive(request, response) {
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > MAX_BODY) return void response.writeHead(413).end(() => request.destroy());
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  if (!isGenuine(request.headers, body)) return void response.writeHead(401).end();
  // Respond, then work: after 15 seconds the sender gives up and sends it again. A repeat gets 2xx, too.
  response.writeHead(204).end();
  const id = request.headers['webhook-id'];
  const isTest = request.headers['x-service-test'] === 'true';
  if (isNew(id)) handle(id, JSON.parse(body.toString('utf8')), isTest);
}

// The data of a test event is a sample: its return does not exist.
function handle(id, event, isTest) {
  console.log(`${id} ${isTest ? 'test ' : ''}${event.trigger} ${JSON.stringify(event)}`);
}

createServer((request, response) => {
  receive(request, response).catch((error) => response.destroy(error)); // The sender hung up.
}).listen(Number(process.env.PORT ?? 8000), () => console.log('ready'));
