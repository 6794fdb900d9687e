import { readFile } from 'node:fs/promises';
import { describe, expect, test } from '@jest/globals';
import { ACT_CHOICES, actionsNamed, actionsOf, actionWords, actOf, objectKind } from './words.ts';

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

  test('are those of its act, which has one name and one text, whatever the door', () => {
    for (const actions of [
      ['portal.process_return', 'rest.processReturn', 'mcp.process_return'],
      ['portal.replay_webhook_delivery', 'rest.replayDelivery', 'mcp.replay_webhook_delivery'],
      ['portal.remove_member', 'member.removed'],
    ]) {
      expect(actionsOf(actOf(actions[0] ?? ''))).toEqual(expect.arrayContaining(actions));
      expect(new Set(actions.map(actionWords)).size).toBe(1);
    }
    // No act is left that differs from another one only in its door.
    const words = ACT_CHOICES.map((one) => one.words.replaceAll(/\b(?:a|an|the|webhook) /gi, ''));
    expect(words.toSorted()).toEqual([...new Set(words)].toSorted());
    expect(ACT_CHOICES.flatMap(({ name }) => actionsOf(name) ?? []).length).toBeGreaterThan(
      1.5 * ACT_CHOICES.length,
    );
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
    ['rest.recordArrival', 'return'],
    ['portal.sign_out', ''],
    ['portal.set_payload_version', ''],
    ['commerce.effect.settled', 'return'],
  ])('%s is about: %s', (action, kind) => {
    expect(objectKind(action)).toBe(kind);
  });
});
