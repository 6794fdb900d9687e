import { readFile } from 'node:fs/promises';
import { describe, expect, test } from '@jest/globals';
import { actionsNamed, actionWords, objectKind } from './words.ts';

/** The actions that have words. */
const KNOWN: ReadonlySet<string> = new Set(actionsNamed(''));

describe('the words of an action', () => {
  test.each([
    ['../../tenancy/api-keys.ts', ['api_key.created', 'api_key.revoked']],
    ['../../tenancy/members.ts', ['member.added', 'member.removed', 'member.role_changed']],
    ['../../admin/commerce-commands.ts', ['commerce.connected', 'commerce.disconnected']],
  ])('exist for what %s records', async (file, actions) => {
    const source = await readFile(new URL(file, import.meta.url), 'utf8');
    const recorded = [...source.matchAll(/'((?:api_key|member|commerce)\.[a-z_.]+)'/g)];
    const names = recorded.map(([, name = '']) => name);
    expect(names).toEqual(expect.arrayContaining(actions));
    expect(names.filter((name) => !KNOWN.has(name))).toEqual([]);
  });

  test('of an action without words are its name', () => {
    expect(actionWords('portal.other_action')).toBe('Portal other action');
  });

  test('are found by a part, in any letters', () => {
    expect(actionsNamed('PAYLOAD VERSION')).toEqual([
      'portal.set_payload_version',
      'payload_version.set',
    ]);
  });

  test.each([
    ['portal.update_webhook', 'webhook'],
    ['portal.rotate_webhook_secret', 'webhook'],
    ['portal.end_earlier_webhook_secrets', 'webhook'],
    ['portal.replay_webhook_delivery', 'delivery'],
    ['portal.start_backfill', 'webhook'],
    ['portal.stop_replay', 'replay'],
    ['portal.retry_webhook_deliveries', 'webhook'],
    ['portal.grade_items', 'return'],
    ['rest.processReturn', 'return'],
    ['rest.updateWebhook', 'webhook'],
    ['mcp.flag_return', 'return'],
    ['member.role_changed', 'member'],
    ['portal.change_role', 'member'],
    ['api_key.rotated', 'key'],
    ['app.installed', 'app'],
    ['portal.sign_out', ''],
    ['portal.set_payload_version', ''],
    ['commerce.effect.settled', 'return'],
  ])('%s is about: %s', (action, kind) => {
    expect(objectKind(action)).toBe(kind);
  });
});
