import { expect } from '@jest/globals';
import { delivers } from '../../../services/contract/topics/topics.ts';
import { RETURN_TRIGGERS, TOPICS, TRIGGERS } from '../../../services/contract/vocabulary.ts';
import { type Hook, type HookPartner, verified } from './hooks.ts';

/** Subscriptions of one shop to every trigger. */
export interface EveryTrigger {
  readonly hooks: ReadonlyMap<string, Hook>;
  /** Number of webhooks of each trigger that {@link EveryTrigger.next} has returned. */
  readonly seen: ReadonlyMap<string, number>;
  /** Waits for the next webhook of the trigger, checks its headers and signature, and returns its payload. */
  next(trigger: string): Promise<Record<string, unknown>>;
}

/** The trigger's own topic, or `return`, which delivers nearly all triggers. */
const topicOf = (trigger: string) =>
  TOPICS.find((topic) => topic !== 'return' && delivers(topic, trigger)) ?? 'return';

/** Subscribes to each trigger. `version` is the payload version of the shop. */
export async function subscribeToAll(partner: HookPartner, version: string): Promise<EveryTrigger> {
  const hooks = new Map<string, Hook>();
  const seen = new Map<string, number>();
  for (const trigger of TRIGGERS) {
    hooks.set(trigger, await partner.subscribe(topicOf(trigger), trigger));
  }
  return {
    hooks,
    seen,
    async next(trigger) {
      const hook = hooks.get(trigger);
      if (!hook) throw new Error(`nothing is subscribed to ${trigger}`);
      const count = (seen.get(trigger) ?? 0) + 1;
      seen.set(trigger, count);
      const received = await partner.nth(hook, count);
      const { headers } = received;
      expect(received.method).toBe('POST');
      expect(headers).toMatchObject({
        'content-type': expect.stringMatching(/^application\/json/),
        'x-service-api-version': version,
        'x-service-event': trigger,
        'x-service-event-id': expect.stringMatching(/\S/),
        'user-agent': expect.stringMatching(/\S/),
      });
      const isAboutReturn = RETURN_TRIGGERS.some((one) => one === trigger);
      if (isAboutReturn) expect(headers['x-service-sequence']).toMatch(/^\d+$/);
      expect(headers).not.toHaveProperty('sunset');
      const age = Date.now() / 1000 - Number(headers['webhook-timestamp']);
      expect(Math.abs(age)).toBeLessThan(30);
      const payload = verified(hook, received);
      expect(payload).toMatchObject({ topic: topicOf(trigger), trigger });
      return payload;
    },
  };
}
