import { randomInt, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type pg from 'pg';
import { submission } from '../../../deploy/local/demo/submission.ts';
import { storeGrant } from '../../../gateway/oauth/tokens/issue.ts';
import { recordAudit } from '../../../gateway/tenancy/audit.ts';
import { installApp, removeApp } from '../../../gateway/tenancy/installations.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { DispositionOutcome, LabelStatus } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { receiverForTests } from '../../kit/during.ts';
import { callIn, connectStack } from '../../kit/journeys/journey.ts';
import { addWebhook, callPortal, deleteWebhooks } from '../../kit/portal/call.ts';
import { addTeamMember, gatewayPool, userIdOf } from '../../kit/portal/gateway-pool.ts';
import { untilLoaded, userForTests } from '../../kit/portal/visitor.ts';
import { until } from '../../kit/until.ts';

// Every text that others write and the portal shows is HTML with scripts. The page shows it as it was written, and no
// script runs: the browser would report each violation of the policy, and each picture that does not load.

const owner = userForTests('owner');
const receiver = receiverForTests();
let services: ReturnType<typeof connectStack>;
/** The gateway's schema, for texts that no API of this stack accepts from a test. */
let database: pg.Pool;
beforeAll(() => {
  services = connectStack(owner.stack);
  database = gatewayPool(owner.stack);
});
afterAll(async () => {
  await database?.end();
  services?.close();
});

/** HTML that ends an attribute, runs a script in four ways, and has the name of its field. */
const hostile = (field: string) =>
  `${field}"><svg onload=document.title=4><img src=x onerror="document.title=1"><script>document.title=2</script><a href="javascript:document.title=3">x</a>`;

/** Opens a page and its folded parts, and expects each text on it as it was written. */
async function expectTexts(path: string, fields: readonly string[]): Promise<void> {
  await owner.open(path);
  await owner.page.evaluate(
    'for (const part of document.querySelectorAll("main details")) part.open = true',
  );
  // Names of webhooks are read after the page.
  await until(async (see) => {
    const shown = await owner.page.locator('main').innerText();
    return see(fields.filter((field) => !shown.includes(hostile(field)))).length === 0;
  });
  expect(await owner.page.title()).toMatch(/ · Returns portal$/);
  const made = 'main img, main script, main [onload], main [href^=javascript]';
  expect(await owner.page.locator(made).count()).toBe(0);
  expect(owner.problems()).toEqual([]);
}

/** A return whose texts are all hostile. Returns its id. */
async function submitHostile(): Promise<bigint> {
  const { shop } = owner.stack;
  const call = callIn(shop);
  const actor = { ...call.actor, name: hostile('actor') };
  const serial = randomInt(10_000_000, 90_000_000);
  const destinationId = shop.fixtures.destinations.linked;
  const { $typeName: _, ...form } = submission(
    { id: shop.id, currency: shop.currency, destinationId },
    { key: randomUUID(), serial, outcome: 'exchange', lines: 1 },
  );
  const { return: made } = await services.services.returns.submitReturn({
    ...form,
    actor,
    order: { ...form.order, name: hostile('order') },
    customer: { ...form.customer, firstName: hostile('first'), lastName: hostile('last') },
    statusPageUrl: 'javascript:document.title=4',
    packageReference: hostile('package'),
    flagReasons: [hostile('flag')],
    exchanges: (form.exchanges ?? []).map((one) => ({
      ...one,
      title: hostile('exchange'),
      sku: hostile('exchange sku'),
    })),
    lines: (form.lines ?? []).map((one) => ({
      ...one,
      title: hostile('title'),
      variantTitle: hostile('variant'),
      sku: hostile('sku'),
      image: 'javascript:document.title=5',
      reason: hostile('reason'),
      parentReason: hostile('parent'),
    })),
  });
  const returnId = made?.id ?? 0n;
  const lineItemId = made?.lineItems[0]?.lineItemId ?? 0n;
  const about = { ...call, actor, returnId };
  await services.services.returns.recordLabel({
    ...about,
    idempotencyKey: randomUUID(),
    carrier: hostile('carrier'),
    trackingNumber: hostile('tracking'),
    url: 'https://labels.example.com/"><script>document.title=6</script>',
    status: LabelStatus.NEW,
  });
  const note = hostile('disposition');
  const items = [{ lineItemId, outcome: DispositionOutcome.DONATE, note, returnProcessor: '<b>w' }];
  await services.services.dispositions.assess({ ...call, items });
  await services.services.dispositions.gradeItems({
    ...call,
    items: [
      {
        lineItemId,
        category: 'grade_b',
        title: hostile('grading'),
        description: hostile('description'),
        note: hostile('grading note'),
      },
    ],
  });
  const comment = hostile('fraud');
  await services.services.fraud.createReport({ ...about, category: 'other', comment });
  await services.services.returns.addNote({ ...about, text: hostile('note') });
  return returnId;
}

describe('texts that others wrote', () => {
  test('of a return', async () => {
    const id = await submitHostile();
    await expectTexts(`/returns/${id}`, [
      ...['order', 'first', 'last', 'package', 'flag', 'exchange', 'exchange sku'],
      ...['title', 'variant', 'sku', 'reason', 'parent', 'carrier', 'tracking'],
      ...['disposition', 'grading', 'description', 'grading note', 'fraud', 'note', 'actor'],
    ]);
    await expectTexts(`/returns?q=${encodeURIComponent(hostile('tracking'))}`, [
      ...['order', 'first', 'last', 'title'],
    ]);
  });

  test('of a receiver that answers with a page, and in address and description of the webhook', async () => {
    receiver.answer = (response) => {
      response.writeHead(400, {
        'content-type': 'text/html',
        'x-text': hostile('header'),
        'set-cookie': 'session=not-for-the-log',
      });
      response.end(hostile('answer'));
    };
    const url = `${new URL('/stored-texts', receiver.url).href}?q=%3Cscript%3E'onload=x'`;
    const webhookId = await addWebhook(owner.page, { url, description: hostile('description') });
    try {
      const { delivery } = await callPortal<{ delivery: { id: string } }>(
        owner.page,
        'WebhooksService/SendTest',
        { idempotencyKey: randomUUID(), subscriptionId: webhookId },
      );
      await owner.open(`/deliveries/${delivery.id}`);
      await owner.page.getByText('HTTP 400').first().waitFor();
      const log = `/deliveries?webhook=${webhookId}`;
      for (const path of ['/webhooks', `/webhooks/${webhookId}`, log, '/payload-version']) {
        await expectTexts(path, ['description']);
      }
      await expectTexts('/audit-log', ['description']);
      await expectTexts(`/deliveries/${delivery.id}`, ['answer', 'header', 'description']);
      const shown = await owner.page.locator('main').innerText();
      expect(shown).toContain(url);
      expect(shown).toMatch(/set-cookie\s+\(not stored\)/);
      expect(shown).not.toContain('not-for-the-log');
    } finally {
      await deleteWebhooks(owner.page, webhookId);
    }
  });

  test('of keys, members and destinations, and of the search', async () => {
    const { page } = owner;
    const key = { description: hostile('key'), scopes: ['returns'] };
    await callPortal(page, 'ApiKeysService/CreateApiKey', { ...key, idempotencyKey: randomUUID() });
    await expectTexts('/api-keys', ['key']);
    const email = `${randomUUID()}@example.com`;
    const userId = await addTeamMember(owner.stack, {
      email,
      name: hostile('member'),
      role: 'analyst',
    });
    const invited = await callPortal<{ invitation: { id: string } }>(
      page,
      'TeamService/InviteMember',
      {
        idempotencyKey: randomUUID(),
        email: `${randomUUID()}@example.com`,
        name: hostile('invited'),
        role: 'analyst',
      },
    );
    await expectTexts('/team', ['member', 'invited']);
    await callPortal(page, 'TeamService/RemoveMember', { userId });
    await callPortal(page, 'TeamService/WithdrawInvitation', {
      invitationId: invited.invitation.id,
    });
    const address = { city: hostile('city'), company: hostile('company'), countryCode: 'GB' };
    await callPortal(page, 'DestinationsService/CreateDestination', {
      idempotencyKey: randomUUID(),
      name: hostile('destination'),
      type: 'DESTINATION_TYPE_DONATE',
      enabled: false,
      address,
    });
    await expectTexts('/destinations', ['destination', 'city', 'company']);
    await page.goto(
      `${owner.stack.file.base_url}/portal/returns?q=${encodeURIComponent(hostile('q'))}`,
    );
    await untilLoaded(page);
    expect(await page.getByLabel('Search').inputValue()).toBe(hostile('q'));
    expect(owner.problems()).toEqual([]);
  });

  test('of assistants, partner apps, and entries of the audit log', async () => {
    const { shop } = owner.stack;
    const shopId = BigInt(shop.id);
    const user = { kind: Actor_Kind.USER, id: '999999999', name: hostile('who') };
    const installed = { issuer: 'https://auth.example.com', clientId: hostile('client') };
    const by = { actor: user, source: hostile('source') };
    await storeGrant(database, randomUUID(), {
      userId: await userIdOf(database, owner.stack, 'owner'),
      shopId,
      clientId: 'https://app.example.com/client',
      app: hostile('app'),
    });
    // One that never called is folded.
    await database.query('update oauth_grants set last_used_at = now() where app = $1', [
      hostile('app'),
    ]);
    await installApp(database, { ...installed, shopId, by });
    try {
      await expectTexts('/assistants', ['app']);
      await expectTexts('/partner-apps', ['client']);
      const changes = [{ field: 'name', from: hostile('before'), to: hostile('after') }];
      const entries = [
        ['portal.update_destination', hostile('subject')],
        // A rejected request may name any text as the id of a webhook.
        ['rest.deleteWebhook', hostile('webhook')],
      ] as const;
      for (const [action, subject] of entries) {
        const detail = { call: randomUUID(), phase: 'done', changes };
        await recordAudit(database, { shopId, by, action, subject, detail });
      }
      const [who, what] = [
        ['who', 'source', 'client'],
        ['subject', 'webhook', 'before', 'after'],
      ];
      await expectTexts('/audit-log', [...who, ...what]);
      await expectTexts(`/audit-log?q=${encodeURIComponent(hostile('after'))}`, ['before']);
    } finally {
      await removeApp(database, { ...installed, shopId, by });
      await database.query('delete from oauth_grants where app = $1', [hostile('app')]);
    }
  });

  test('of the name of the user, in the menu of the account and in the timeline', async () => {
    const id = await userIdOf(database, owner.stack, 'returns_agent');
    const { rows } = await database.query<{ name: string }>(
      'select name from users where id = $1',
      [id],
    );
    await database.query('update users set name = $2 where id = $1', [id, hostile('user')]);
    try {
      const agent = await owner.visit('returns_agent');
      const { id: returnId } = await owner.stack.fixture('open');
      const note = { returnId: String(returnId), text: 'x', idempotencyKey: randomUUID() };
      await callPortal(agent.page, 'ReturnsService/AddNote', note);
      await agent.open(`/returns/${returnId}`);
      const menu = agent.page.getByRole('button', { name: /^Account of user/ });
      expect(await menu.innerText()).toContain(hostile('user'));
      expect(await agent.page.locator('main').innerText()).toContain(hostile('user'));
      expect(await agent.page.title()).toMatch(/ · Returns portal$/);
      expect(agent.problems()).toEqual([]);
      await agent.close();
    } finally {
      await database.query('update users set name = $2 where id = $1', [id, rows[0]?.name]);
    }
  });
});
