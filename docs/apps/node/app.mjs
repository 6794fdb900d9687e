// A partner's app: a merchant lets it in, and it calls the API for the shop. Node 18 or newer, no packages:
//   BASE_URL=https://… CLIENT_ID=… CLIENT_SECRET=… REDIRECT_URI=http://127.0.0.1:7777/callback node app.mjs
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

const { BASE_URL, CLIENT_ID, CLIENT_SECRET, REDIRECT_URI } = process.env;
const SCOPE = process.env.SCOPE ?? 'returns:submit warehouse';
const SERVER = `${BASE_URL}/partners`;

// Lost at a restart. In production store what began a sign-in in the session of the browser, and tokens encrypted.
const started = new Map();
const tokensOf = new Map();

function connect(response) {
  const state = randomBytes(32).toString('base64url');
  const verifier = randomBytes(32).toString('base64url');
  started.set(state, verifier);
  const query = new URLSearchParams({
    response_type: 'code',
    client_id: CLIENT_ID,
    redirect_uri: REDIRECT_URI,
    scope: SCOPE,
    state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  });
  // The cookie ties the answer to this browser.
  const headers = {
    location: `${SERVER}/authorize?${query}`,
    'set-cookie': `state=${state}; HttpOnly; SameSite=Lax; Max-Age=900`,
  };
  response.writeHead(303, headers).end();
}

// Sends a form, with the proof that this is the app.
async function post(path, form) {
  const proof = Buffer.from(`${CLIENT_ID}:${CLIENT_SECRET}`).toString('base64');
  const response = await fetch(`${SERVER}${path}`, {
    method: 'POST',
    headers: { authorization: `Basic ${proof}` },
    body: new URLSearchParams(form),
  });
  const text = await response.text();
  const body = text === '' ? {} : JSON.parse(text);
  if (response.ok) return body;
  throw new Error(`${path}: ${response.status} ${body.error}: ${body.error_description}`);
}

async function callback(request, query) {
  const state = query.get('state');
  const verifier = started.get(state);
  started.delete(state);
  // Without these checks another site could connect its own shop here (RFC 9700, 4.7), or pose as this server (RFC 9207).
  const isOwn = verifier && (request.headers.cookie ?? '').includes(`state=${state}`);
  if (!isOwn || query.get('iss') !== SERVER)
    throw new Error('the answer belongs to no sign-in here');
  if (query.has('error'))
    throw new Error(`${query.get('error')}: ${query.get('error_description')}`);
  const tokens = await post('/oauth/token', {
    grant_type: 'authorization_code',
    code: query.get('code'),
    redirect_uri: REDIRECT_URI,
    code_verifier: verifier,
  });
  return keep(tokens);
}

function keep(tokens) {
  const claims = JSON.parse(Buffer.from(tokens.access_token.split('.')[1], 'base64url'));
  tokensOf.set(String(claims.shop_id), tokens);
  return { shop_id: claims.shop_id, scope: tokens.scope, expires_in: tokens.expires_in };
}

// One refresh at a time for each shop: a second use of a refresh token ends the access.
const refreshing = new Map();
function refresh(shop) {
  const form = { grant_type: 'refresh_token', refresh_token: tokensOf.get(shop).refresh_token };
  const running = refreshing.get(shop) ?? post('/oauth/token', form).then(keep);
  refreshing.set(shop, running);
  return running.finally(() => refreshing.delete(shop));
}

// Calls the API for a shop. After a 401 it refreshes, and repeats the call with the same idempotency key.
async function call(shop, method, path, body) {
  const key = randomUUID();
  const send = () =>
    fetch(`${BASE_URL}/api/2026-10${path}`, {
      method,
      headers: {
        authorization: `Bearer ${tokensOf.get(shop).access_token}`,
        'content-type': 'application/json',
        'idempotency-key': key,
      },
      ...(body && { body: JSON.stringify(body) }),
    });
  let response = await send();
  if (response.status === 401) {
    await refresh(shop);
    response = await send();
  }
  const answer = await response.json();
  if (response.ok) return answer;
  throw new Error(`${path}: ${response.status} ${JSON.stringify(answer)}`);
}

// The whole way of a unit: what may come back, the return, its arrival. Then the shop's policy or a person refunds it.
async function sendBack(shop, query) {
  const order = query.get('order');
  const path = `/orders/eligibility?order_name=${encodeURIComponent(order)}`;
  const { lines } = await call(shop, 'GET', path);
  const line = lines.find(({ returnable_quantity }) => returnable_quantity > 0);
  if (!line) throw new Error(`nothing of ${order} may come back`);
  const items = [{ provider_line_item_id: line.provider_line_item_id, quantity: 1 }];
  const made = await call(shop, 'POST', '/returns', { order_name: order, items });
  const arrived = made.line_items.map(({ line_item_id }) => ({ line_item_id, quantity: 1 }));
  await call(shop, 'POST', '/warehouse/arrivals', { return_id: made.id, items: arrived });
  return { return_id: made.id };
}

async function details(shop, query) {
  const path = `/warehouse/return/details?return_id=${query.get('id')}`;
  const { id, state, refund } = await call(shop, 'GET', path);
  return { id, state, refund };
}

async function disconnect(shop) {
  await post('/oauth/revoke', { token: tokensOf.get(shop).refresh_token });
  tokensOf.delete(shop);
  return { disconnected: shop };
}

async function answer(request, response) {
  const { pathname, searchParams: query } = new URL(request.url, REDIRECT_URI);
  const shop = query.get('shop');
  if (pathname === '/connect') return connect(response);
  const isCallback = pathname === new URL(REDIRECT_URI).pathname;
  const actions = {
    '/return': sendBack,
    '/details': details,
    '/refresh': refresh,
    '/disconnect': disconnect,
  };
  const action = actions[pathname];
  // A GET may be sent by a preview of a link, or twice.
  if (action && action !== details && request.method !== 'POST')
    return response.writeHead(405, { allow: 'POST' }).end('use POST\n');
  if (!isCallback && (!action || !tokensOf.has(shop)))
    return response.writeHead(404).end('open /connect first\n');
  const body = isCallback ? await callback(request, query) : await action(shop, query);
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

createServer((request, response) => {
  answer(request, response).catch((error) => response.writeHead(502).end(error.message));
}).listen(Number(new URL(REDIRECT_URI).port || 80), () => console.log('ready'));
