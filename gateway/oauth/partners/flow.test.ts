import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import * as oauth from 'openid-client';
import { SCOPE_RULES } from '../../../services/contract/scopes.ts';
import { createInProcessBus } from '../../../services/platform/bus/in-process.ts';
import { TEST_AUTHOR } from '../../../test/kit/gateway/test-gateway.ts';
import { Browser } from '../../../test/kit/oauth/browser.ts';
import {
  APP_REDIRECT,
  claimsIn,
  clientOf,
  type PartnerBench,
  redirectedWith,
  startPartnerBench,
  type TestApp,
} from '../../../test/kit/oauth/partner-bench.ts';
import type { Person } from '../../../test/kit/oauth/sign-in-stack.ts';
import { listAudit } from '../../tenancy/audit-list.ts';
import { listApps } from '../../tenancy/installations.ts';
import { addMember } from '../../tenancy/members.ts';
import { rotatePartnerSecret } from '../../tenancy/partner-apps.ts';
import { allowWaitingScopes } from '../../tenancy/partner-grants.ts';
import { partnerIssuer } from './address.ts';

let bench: PartnerBench;
let app: TestApp;
let owner: Person;
let ownersShop: bigint;
const lines: string[] = [];
beforeAll(async () => {
  const bus = createInProcessBus();
  const mails = { SMTP_URL: 'smtp://127.0.0.1:1', MAIL_FROM: 'returns@example.com', bus };
  const logDestination = { write: (line: string): void => void lines.push(line) };
  bench = await startPartnerBench({ ...mails, LOG_LEVEL: 'info', logDestination });
  app = await bench.newApp({ website: 'https://parcels.example.com/' });
  owner = await bench.stack.newPerson();
  [ownersShop = 0n] = owner.shopIds;
});
afterAll(() => bench.stop());

const pool = () => bench.stack.under.database.pool;

/** Makes the person a member of another shop of somebody else. */
async function alsoIn(person: Person, role: 'developer' | 'analyst'): Promise<bigint> {
  const ada = await bench.stack.newPerson();
  const [shopId = 0n] = ada.shopIds;
  await addMember(pool(), { shopId, email: person.email, role, by: TEST_AUTHOR });
  return shopId;
}

const OF_RETURNS = ['returns', 'returns:read', 'returns:submit', 'warehouse'] as const;

describe('the metadata', () => {
  test('is at the well-known address of the issuer, and names all endpoints', async () => {
    const { baseUrl } = bench.stack;
    const url = `${baseUrl}/.well-known/oauth-authorization-server/partners`;
    const issuer = `${baseUrl}/partners`;
    expect(await (await fetch(url)).json()).toMatchObject({
      issuer,
      authorization_endpoint: `${issuer}/authorize`,
      token_endpoint: `${issuer}/oauth/token`,
      revocation_endpoint: `${issuer}/oauth/revoke`,
      jwks_uri: `${issuer}/jwks`,
      code_challenge_methods_supported: ['S256'],
      grant_types_supported: ['authorization_code', 'refresh_token'],
      scopes_supported: expect.arrayContaining([
        ...OF_RETURNS,
        ...['developer_tools', 'labels:write'],
      ]),
    });
  });
});

describe('the consent of a member', () => {
  test('gives the app a token for an hour that calls the API for the shop', async () => {
    const tokens = await bench.tokens(app, owner);
    expect(tokens).toMatchObject({
      token_type: 'bearer',
      scope: 'developer_tools',
      expires_in: 3_600,
      refresh_token: expect.any(String),
    });
    expect(claimsIn(tokens.access_token)).toMatchObject({
      iss: partnerIssuer(bench.stack.baseUrl),
      aud: bench.stack.baseUrl,
      sub: String(owner.userId),
      client_id: app.clientId,
      shop_id: Number(ownersShop),
      scope: 'developer_tools',
    });
    expect((await bench.call(tokens.access_token)).status).toBe(200);
  });

  test('installs the app in the shop, with an entry in the audit log', async () => {
    const person = await bench.stack.newPerson({ role: 'developer' });
    const [shopId = 0n] = person.shopIds;
    await bench.visit(app, person);
    const ownIssuer = partnerIssuer(bench.stack.baseUrl);
    expect(await listApps(pool(), { shopId, ownIssuer })).toMatchObject([
      {
        clientId: app.clientId,
        issuer: ownIssuer,
        name: 'Parcels & Co',
        website: 'https://parcels.example.com/',
        scopes: ['developer_tools'],
        waitingScopes: [],
        lastUsedAt: null,
      },
    ]);
    const [entry] = await listAudit(pool(), { shopId, action: 'app.installed', limit: 5 });
    expect(entry).toMatchObject({
      actorKind: 'user',
      actorId: String(person.userId),
      subject: app.clientId,
      source: expect.any(String),
      detail: { issuer: ownIssuer, scopes: ['developer_tools'] },
    });
    await bench.visit(app, person);
    const again = await listAudit(pool(), { shopId, action: 'app.*', limit: 5 });
    expect(again.map(({ action }) => action)).toEqual(['app.allowed', 'app.installed']);
  });

  test('mails the owners of the shop once, and nobody else', async () => {
    const person = await bench.stack.newPerson({ role: 'developer' });
    const [shopId = 0n] = person.shopIds;
    const owners = ['one', 'two'].map((name) => `${name}-${shopId}@example.com`);
    for (const email of owners) {
      await addMember(pool(), { shopId, email, role: 'owner', by: TEST_AUTHOR });
    }
    await bench.visit(app, person);
    await bench.visit(app, person);
    const { rows } = await pool().query(
      `select u.email, m.kind, m.facts from mails m join users u on u.id = m.user_id
        where m.shop_id = $1 order by u.email`,
      [shopId],
    );
    const fact = { user_id: String(person.userId), client_id: app.clientId };
    expect(rows).toMatchObject(
      owners.map((email) => ({ email, kind: 'app_installed', facts: [fact] })),
    );
  });

  test('says in words what the app may do, for which shop and for how long', async () => {
    const scope = 'developer_tools labels:write';
    const { text, headers } = await bench.visit(app, owner, { scope, stopsAtConsent: true });
    for (const part of [
      'Connect Parcels &#38; Co to your shop?',
      'https://parcels.example.com/',
      'app.example.com',
      `no. ${ownersShop}`,
      owner.email,
      'Create, change and delete webhooks',
      'record shipping labels',
      '90 days at most',
    ]) {
      expect(text).toContain(part);
    }
    expect(text).not.toContain('developer_tools');
    const policy = headers.get('content-security-policy') ?? '';
    expect(policy.replace(/sha256-[A-Za-z0-9+/=]+/, 'sha256')).toBe(
      "default-src 'none'; style-src 'sha256'; img-src data:; base-uri 'none'; form-action 'self' https://app.example.com; frame-ancestors 'none'",
    );
    const less = await bench.visit(app, owner, { scope: 'labels:write', stopsAtConsent: true });
    expect(less.text).not.toContain('Create, change');
  });

  test('shows the sentence of each scope of returns that the app asks for, and of no other', async () => {
    const asking = await bench.newApp({ scopes: [...OF_RETURNS] });
    const browser = new Browser();
    for (const scope of OF_RETURNS) {
      const { text } = await bench.visit(asking, owner, { scope, browser, stopsAtConsent: true });
      const shown = OF_RETURNS.filter((one) => text.includes(SCOPE_RULES[one].text));
      expect([scope, shown]).toEqual([scope, [scope]]);
    }
  });

  test('is asked for every time, also from a browser that is signed in', async () => {
    const browser = new Browser();
    await bench.visit(app, owner, { browser });
    const again = await bench.visit(app, owner, { browser, stopsAtConsent: true });
    expect(again.text).toContain('name="consent"');
    const asked = await bench.ask(app, { more: { prompt: 'none' } });
    const none = await browser.open(asked.url, APP_REDIRECT);
    expect(redirectedWith(none).error).toMatch(/_required$/);
  });

  test('is for one shop of several: the person chooses one, and others are not offered', async () => {
    const person = await bench.stack.newPerson({ shops: 2 });
    const [one = 0n, two = 0n] = person.shopIds;
    const notAllowed = await alsoIn(person, 'analyst');
    const { access_token } = await bench.tokens(app, person, { shop: two });
    expect(claimsIn(access_token)).toMatchObject({ shop_id: Number(two) });
    const apps = await Promise.all(
      person.shopIds.map((shopId) => listApps(pool(), { shopId, ownIssuer: '' })),
    );
    expect(apps.map((list) => list.length)).toEqual([0, 1]);
    for (const [shop, status, text] of [
      [ownersShop, 400, 'Choose one of your shops.'],
      [notAllowed, 403, 'You may not connect this app'],
    ] as const) {
      const shown = await bench.visit(app, person, { shop });
      expect([shop, shown.status]).toEqual([shop, status]);
      expect(shown.text).toContain(text);
    }
    const shown = await bench.visit(app, person, { shop: one, stopsAtConsent: true });
    expect(shown.text).toContain(`no. ${one}`);
  });

  test('is possible only with the right to manage webhooks; the page names who has it', async () => {
    const person = await bench.stack.newPerson({ role: 'analyst' });
    const [shopId = 0n] = person.shopIds;
    const email = `${shopId}-owner@example.com`;
    await addMember(pool(), { shopId, email, role: 'owner', name: 'Grace', by: TEST_AUTHOR });
    const browser = new Browser();
    const shown = await bench.visit(app, person, { browser });
    expect([shown.status, shown.text]).toEqual([403, expect.stringContaining('Grace (Owner)')]);
    const refused = lines
      .map((line) => JSON.parse(line))
      .findLast(({ msg }) => / refused/.test(msg));
    expect(refused).toMatchObject({
      msg: 'sign-in for an app refused: permission missing',
      ...{ clientId: app.clientId, source: '127.0.0.1', requestId: expect.any(String) },
    });
    const back = await browser.submit(shown, {}, APP_REDIRECT);
    expect(redirectedWith(back)).toMatchObject({
      error: 'access_denied',
      iss: partnerIssuer(bench.stack.baseUrl),
    });
    expect(await listApps(pool(), { shopId })).toEqual([]);
  });

  test('can be refused', async () => {
    const browser = new Browser();
    const shown = await bench.visit(app, owner, { browser, stopsAtConsent: true });
    const deny = shown.text.slice(shown.text.indexOf('</form>') + 7);
    const back = await browser.submit({ ...shown, text: deny }, {}, APP_REDIRECT);
    expect(redirectedWith(back)).toMatchObject({
      error: 'access_denied',
      state: shown.asked.state,
    });
  });

  test('is not given by another browser, without the hidden field, or for a shop of an older page', async () => {
    const person = await bench.stack.newPerson({ shops: 2 });
    const [one = 0n, two = 0n] = person.shopIds;
    const browser = new Browser();
    const first = await bench.visit(app, person, { browser, shop: one, stopsAtConsent: true });
    expect((await new Browser().submit(first, {}, APP_REDIRECT)).status).toBe(400);
    expect((await browser.submit(first, { csrf: 'x' }, APP_REDIRECT)).status).toBe(400);
    for (const consent of ['maybe', 'ALLOW']) {
      const unknown = await browser.submit(first, { consent }, APP_REDIRECT);
      expect([unknown.status, unknown.text]).toEqual([
        400,
        expect.stringContaining('nothing was allowed'),
      ]);
    }
    const action = first.url.pathname.replace('consent', 'shop');
    const second = await browser.open(new URL(action, first.url), APP_REDIRECT, {
      method: 'POST',
      body: new URLSearchParams({ shop_id: String(two) }),
    });
    expect(second.text).toContain(`no. ${two}`);
    expect((await browser.submit(first, {}, APP_REDIRECT)).status).toBe(400);
    expect(redirectedWith(await browser.submit(second, {}, APP_REDIRECT))).toHaveProperty('code');
  });
});

describe('scopes above the rights of the person', () => {
  test('wait until an owner allows them; the next refresh has them', async () => {
    const asking = await bench.newApp({ scopes: ['developer_tools', 'returns'] });
    const person = await bench.stack.newPerson({ role: 'developer' });
    const [shopId = 0n] = person.shopIds;
    const scope = 'developer_tools returns';
    const page = await bench.visit(asking, person, { scope, stopsAtConsent: true });
    expect(page.text).toMatch(/waits until an owner.*process returns/s);
    const tokens = await bench.tokens(asking, person, { scope });
    expect(tokens.scope).toBe('developer_tools');
    const issuer = partnerIssuer(bench.stack.baseUrl);
    const whose = { shopId, issuer, clientId: asking.clientId };
    await allowWaitingScopes(pool(), { ...whose, scopes: ['returns'], by: TEST_AUTHOR });
    const fresh = await oauth.refreshTokenGrant(asking.config, tokens.refresh_token ?? '');
    expect(fresh.scope?.split(' ').toSorted()).toEqual(['developer_tools', 'returns']);
    // What the app has in the shop does not wait again.
    expect((await bench.tokens(asking, person, { scope })).scope?.split(' ')).toHaveLength(2);
  });

  test('may be all of them: the app is installed, and its token can do nothing yet', async () => {
    const asking = await bench.newApp({ scopes: ['returns'] });
    const person = await bench.stack.newPerson({ role: 'developer' });
    const tokens = await bench.tokens(asking, person, { scope: 'returns' });
    expect(tokens.scope ?? '').toBe('');
    expect((await bench.call(tokens.access_token)).status).toBe(401);
  });
});

describe('the requests of an app', () => {
  test('get only scopes that exist and that the app is registered for', async () => {
    const scope = 'labels:write giftcards:write everything openid';
    expect((await bench.tokens(app, owner, { scope })).scope).toBe('labels:write');
    const none = await bench.visit(app, owner, { scope: 'everything' });
    expect(redirectedWith(none)).toMatchObject({
      error: 'invalid_scope',
      state: none.asked.state,
      iss: partnerIssuer(bench.stack.baseUrl),
    });
  });

  test('an app proves itself by Basic or in the form, with any secret that works', async () => {
    const rotated = await bench.newApp();
    const { baseUrl } = bench.stack;
    const { clientId, secret: former } = rotated;
    const newest = await rotatePartnerSecret(pool(), { clientId, overlapHours: 1 });
    for (const auth of [
      oauth.ClientSecretBasic(former),
      oauth.ClientSecretPost(newest),
      oauth.ClientSecretBasic(newest),
    ]) {
      const config = await clientOf(baseUrl, clientId, auth);
      expect((await bench.tokens({ ...rotated, config }, owner)).scope).toBe('developer_tools');
    }
    const last = await rotatePartnerSecret(pool(), { clientId, overlapHours: 0 });
    for (const [secret, isAccepted] of [
      [former, false],
      [newest, false],
      ['', false],
      [last, true],
    ] as const) {
      const config = await clientOf(baseUrl, clientId, oauth.ClientSecretPost(secret || 'x'));
      const tokens = bench.tokens({ ...rotated, config }, owner);
      if (isAccepted) expect((await tokens).scope).toBe('developer_tools');
      else await expect(tokens).rejects.toMatchObject({ error: 'invalid_client' });
    }
  });

  test('a public app has no secret, and gets no refresh token', async () => {
    const page = await bench.newApp({ isPublic: true });
    const tokens = await bench.tokens(page, owner);
    expect(tokens.refresh_token).toBeUndefined();
    expect((await bench.call(tokens.access_token)).status).toBe(200);
  });

  test.each(['', '/'])('the resource may be {base_url}%s, and no other', async (end) => {
    const resource = `${bench.stack.baseUrl.replace('http:', 'HTTP:')}${end}`;
    const asked = await bench.ask(app, { more: { resource } });
    const { access_token } = await bench.redeem(app, await bench.visit(app, owner, { asked }));
    expect(claimsIn(access_token)).toMatchObject({ aud: bench.stack.baseUrl });
    const other = await bench.ask(app, { more: { resource: 'https://evil.example' } });
    const refused = await bench.visit(app, owner, { asked: other });
    expect(redirectedWith(refused)).toMatchObject({ error: 'invalid_target' });
  });
});
