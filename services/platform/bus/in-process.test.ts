import { describe, expect, test } from '@jest/globals';
import { busContract } from '../../../test/kit/events/bus-contract.ts';
import { createInProcessBus } from './in-process.ts';

busContract('in-process', async () => createInProcessBus({ backoff: () => 5 }), { isOnce: true });

const one = [{ key: 'k', value: Buffer.from('1'), headers: {} }];

describe('in-process bus', () => {
  test('publish resolves only after every group has handled the record', async () => {
    const bus = createInProcessBus();
    const gate = Promise.withResolvers<void>();
    const order: string[] = [];
    await bus.subscribe({ group: 'quick', topics: ['t'], handle: async () => {} });
    await bus.subscribe({
      group: 'slow',
      topics: ['t'],
      handle: async () => {
        await gate.promise;
        order.push('handled');
      },
    });
    const published = bus.publish('t', one).then(() => order.push('published'));
    gate.resolve();
    await published;
    expect(order).toEqual(['handled', 'published']);
    await bus.close();
  });

  test('publish waits for an expected group that has not subscribed yet', async () => {
    const bus = createInProcessBus({ groups: [{ group: 'late', topics: ['t'] }] });
    const order: string[] = [];
    const published = bus.publish('t', one).then(() => order.push('published'));
    order.push('subscribed');
    await bus.subscribe({
      group: 'late',
      topics: ['t'],
      handle: async () => {
        order.push('handled');
      },
    });
    await published;
    expect(order).toEqual(['subscribed', 'handled', 'published']);
    await bus.close();
  });

  test('closing rejects unhandled records and all later ones', async () => {
    const bus = createInProcessBus({ groups: [{ group: 'never', topics: ['t'] }] });
    const published = expect(bus.publish('t', one)).rejects.toThrow('closed');
    await bus.close();
    await published;
    await expect(bus.publish('t', one)).rejects.toThrow('closed');
    await expect(bus.health()).rejects.toThrow('closed');
  });

  test('without a subscriber publish resolves', async () => {
    const bus = createInProcessBus();
    await expect(bus.publish('t', one)).resolves.toBeUndefined();
    await bus.close();
  });
});
