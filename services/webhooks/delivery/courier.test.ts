import { expect, test } from '@jest/globals';
import { createBoard } from './board.ts';
import { type CourierOptions, createCourier } from './courier.ts';
import { NEW_ENDPOINT } from './endpoint.ts';

const LANES = 100;

test('all lanes of a shop that waits for its bytes are put off together', async () => {
  const board = createBoard();
  for (let n = 1n; n <= LANES; n += 1n) {
    const ids = { shopId: 1n, subscriptionId: n, endpointId: n, endpointKey: `1:${n}` };
    board.add({ ...ids, key: `1:${n}`, shard: 0, health: NEW_ENDPOINT });
  }
  let nowMs = 0;
  const putOff: number[] = [];
  const used: Partial<CourierOptions> = {
    board,
    shopBytes: {
      take: () => false,
      // The clock runs while lanes are looked at.
      waitMs: () => {
        nowMs += 0.01;
        return 60_000 - nowMs;
      },
      waiting: () => 1,
    },
    onWait: async (lanes) => void putOff.push(lanes.length),
  };
  // Nothing is read or sent, so the rest is not needed.
  await createCourier(used as CourierOptions).take();
  expect(putOff).toEqual([LANES]);
});
