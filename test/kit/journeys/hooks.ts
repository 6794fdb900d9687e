import { expect } from '@jest/globals';
import { during } from '../during.ts';
import type { StackShop } from '../stack.ts';
import { until } from '../until.ts';
import { type Received, type Receiver, startReceiver } from '../webhooks/receiver.ts';
import { verified as verifiedBy } from '../webhooks/signatures.ts';
import type { Journey } from './journey.ts';

export interface Hook {
  readonly id: number;
  readonly path: string;
  readonly url: string;
  readonly secret: string;
}

/** A partner with an endpoint on loopback, who subscribes over REST. */
export interface HookPartner {
  readonly receiver: Receiver;
  /** Subscribes a new path to this topic and trigger. */
  subscribe(topic: string, trigger: string): Promise<Hook>;
  /** All requests to a subscription so far, oldest first. */
  received(hook: Hook): readonly Received[];
  /** Waits until `count` requests have arrived, and returns the last one. */
  nth(hook: Hook, count: number): Promise<Received>;
}

export interface StartedPartner extends HookPartner {
  stop(): Promise<void>;
}

let last = 0;

export async function startPartner(journey: Journey, shop: StackShop): Promise<StartedPartner> {
  const receiver = await startReceiver();
  const received = (hook: Hook) => receiver.received.filter(({ path }) => path === hook.path);
  return {
    receiver,
    received,
    async subscribe(topic, trigger) {
      last += 1;
      const url = new URL(`/hooks/${last}`, receiver.url).href;
      const key = shop.api_keys.developer_tools ?? '';
      const json = { topic, trigger, url };
      const response = await journey.send({ path: '/api/2026-10/webhooks', json, key });
      expect(response.status).toBe(201);
      const { id, secret } = response.body as { id: number; secret: string };
      return { id, path: `/hooks/${last}`, url, secret };
    },
    async nth(hook, count) {
      await until((see) => see(received(hook).length) >= count);
      const one = received(hook)[count - 1];
      if (!one) throw new Error('nothing was received');
      return one;
    },
    stop: () => receiver.stop(),
  };
}

/** A partner of the first shop during the tests of a file. */
export function partnerForTests(journey: Journey): HookPartner {
  const partner = during(() => startPartner(journey, journey.stack.shop));
  return {
    get receiver() {
      return partner().receiver;
    },
    subscribe: (topic, trigger) => partner().subscribe(topic, trigger),
    received: (hook) => partner().received(hook),
    nth: (hook, count) => partner().nth(hook, count),
  };
}

/** Verifies the signature like a partner (Standard Webhooks), and returns the payload. */
export function verified(hook: Hook, received: Received): Record<string, unknown> {
  return verifiedBy(hook.secret, received);
}
